// Which ops of which shapes a profile should hold.
#pragma once

#include <optional>
#include <vector>

#include "gguf/file.h"
#include "lanes/subgraph.h"
#include "model/known.h"
#include "plan/profile.h"
#include "weights/store.h"

namespace troika::solve {

// An op of a model in an executable of some shape; attention sees `context` positions.
plan::OpShape shape_of(const model::Blueprint& blueprint, const model::Op& op,
                       const weights::Store& weights, tensor::Type kv_type, plan::Shape shape,
                       int context);
// The same of what a sliced subgraph computes of an op. Nothing: it has no part in it.
std::optional<plan::OpShape> shape_of(const lanes::Subgraph& subgraph, size_t index,
                                      const weights::Store& weights, tensor::Type kv_type,
                                      plan::Shape shape, int context);

// Every different op of a model in the shapes of plans. One of each op first, then the dear ones.
std::vector<plan::OpShape> model_shapes(const model::Blueprint& blueprint,
                                        const weights::Store& weights, tensor::Type kv_type);
// The same for a model of which there is no file; `type` is that of all matrices.
std::vector<plan::OpShape> model_shapes(const model::KnownModel& model, tensor::Type type,
                                        tensor::Type kv_type);

// Parts of these products by rows, as lanes get them where a weight is cut: a quarter, a half and
// three quarters.
std::vector<plan::OpShape> part_shapes(const std::vector<plan::OpShape>& shapes);

// The different products of a model's body in these shapes.
std::vector<plan::OpShape> product_shapes(const model::Blueprint& blueprint,
                                          const weights::Store& weights,
                                          const std::vector<plan::Shape>& shapes);

// One product at many token counts, up to 32 of them as in steps: the stages of a matrix unit
// (HeteroLLM 3.2).
std::vector<plan::OpShape> stage_shapes(tensor::Type type);
// Products of equal size whose weight is narrow or long: order and shape effects.
std::vector<plan::OpShape> order_shapes(tensor::Type type);
// Products of many sizes, and the other ops, to predict from. In a seeded order, so that a part of
// them covers the whole evenly.
std::vector<plan::OpShape> grid_shapes(tensor::Type type, tensor::Type kv_type);

// Rows of the weight in `order_shapes`, for plots.
inline constexpr int kStageRows = 1024;
inline constexpr int kOrderElements = 1 << 20;

}  // namespace troika::solve
