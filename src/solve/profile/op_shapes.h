// Says which ops of which shapes a profile should hold.
#pragma once

#include <optional>
#include <vector>

#include "gguf/file.h"
#include "lanes/subgraph.h"
#include "model/known.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// Returns an op of a model in an executable of some shape; attention sees `context` positions.
plan::OpShape shape_of(const model::Blueprint& blueprint, const model::Op& op,
                       const weights::Store& weights, tensor::Type kv_type, plan::Shape shape,
                       int context);
// Returns what a sliced subgraph computes of an op; nothing where it has no part in it.
std::optional<plan::OpShape> shape_of(const lanes::Subgraph& subgraph, size_t index,
                                      const weights::Store& weights, tensor::Type kv_type,
                                      plan::Shape shape, int context);

// Returns every different op of a model in the shapes of plans: one of each op first, then the
// costly ones.
std::vector<plan::OpShape> model_shapes(const model::Blueprint& blueprint,
                                        const weights::Store& weights, tensor::Type kv_type);
// Returns the ops of a model of which there is no file; `type` is that of all matrices.
std::vector<plan::OpShape> model_shapes(const model::KnownModel& model, tensor::Type type,
                                        tensor::Type kv_type);

// Returns parts of these products by rows, as lanes get them where a weight is cut: a quarter, a
// half and three quarters.
std::vector<plan::OpShape> part_shapes(const std::vector<plan::OpShape>& shapes);

// Returns the different products of a model's body in these shapes.
std::vector<plan::OpShape> product_shapes(const model::Blueprint& blueprint,
                                          const weights::Store& weights,
                                          const std::vector<plan::Shape>& shapes);

// Returns one product at many token counts, up to 32 of them as in steps: they show the stages of a
// matrix unit (HeteroLLM 3.2).
std::vector<plan::OpShape> stage_shapes(tensor::Type type);
// Returns products of equal size whose weight is narrow or long: they show order and shape effects.
std::vector<plan::OpShape> order_shapes(tensor::Type type);
// Returns products of many sizes, and the other ops, to predict from. They are in a seeded order,
// so that a part of them covers the whole evenly.
std::vector<plan::OpShape> grid_shapes(tensor::Type type, tensor::Type kv_type);

// These count the rows of the weight in `stage_shapes`, and the elements of the weights in
// `order_shapes`, for plots.
inline constexpr int kStageRows = 1024;
inline constexpr int kOrderElements = 1 << 20;

}  // namespace troika::solve
