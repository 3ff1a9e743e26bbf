#include "schedule/cut/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>

#include "forge/hollow.h"
#include "model/architecture.h"
#include "model/known.h"
#include "schedule/graphs.h"

namespace troika::schedule {
namespace {

constexpr int kMain = 3, kShadow = 1, kRead = 2;  // are lanes

OutlierCut lanes_of_outliers() {
  OutlierCut cut;
  cut.shadow_lane = kShadow;
  cut.read_lane = kRead;
  return cut;
}
Cut outliers() { return {kMain, lanes_of_outliers()}; }

struct Model {
  explicit Model(const char* name) : hollow(model::get_known(name), "q8_0") {}
  forge::HollowModel hollow;
  gguf::File file = hollow.open();
  model::Blueprint blueprint = model::read(file);
  weights::Store weights{file, blueprint};
};

TEST(Shadow, N6BlocksInTheMiddleLoseTheirOutliersFirst) {
  const auto kept = [](int n_blocks, int prune) {
    std::vector<int> blocks;
    for (int block = -1; block <= n_blocks; ++block) {
      if (keeps_outliers(block, n_blocks, prune)) blocks.push_back(block);
    }
    return blocks;
  };
  EXPECT_EQ(kept(24, 85), (std::vector<int>{0, 1, 22, 23}));
  EXPECT_EQ(kept(5, 40), (std::vector<int>{0, 1, 4}));
  EXPECT_EQ(kept(24, 100), std::vector<int>());
  EXPECT_EQ(kept(24, 0).size(), 24u);
}

TEST(Shadow, N4EveryOpIsComputedOnceAndEveryProductHasItsOutliers) {
  for (const char* name : {"qwen1.5-1.8b", "phi-2", "gemma-2b"}) {
    const Model m(name);
    for (const bool is_cut_at_norms : {false, true}) {
      for (const lanes::Subgraph& whole :
           cut_into_subgraphs(m.blueprint, {.at_norms = is_cut_at_norms})) {
        if (whole.is_dynamic() || whole.block() != 0) continue;
        const std::vector<Piece> pieces = lower(whole, outliers());
        size_t n_ops = 0;
        size_t n_products = 0, n_shadow = 0, n_sum = 0;
        for (size_t i = 0; i < pieces.size(); ++i) {
          const lanes::Subgraph& piece = pieces[i].subgraph;
          for (const int other : pieces[i].waits_for) EXPECT_LT(other, static_cast<int>(i));
          if (piece.role == lanes::Role::kShadow) {
            n_shadow += piece.ops.size();
            EXPECT_EQ(pieces[i].lane, kShadow);
            // A shadow waits for what its product waits for, so that both run at once.
            EXPECT_EQ(pieces[i].waits_for, pieces[i - 1].waits_for);
          } else if (piece.role == lanes::Role::kSum) {
            n_sum += piece.ops.size();
            EXPECT_EQ(pieces[i].waits_for.size(), 2u);
          } else {
            EXPECT_EQ(piece.ops.data(), whole.ops.data() + n_ops);
            n_ops += piece.ops.size();
            for (const model::Op& op : piece.ops) {
              if (op.kind != model::OpKind::kLinear) continue;
              ++n_products;
              EXPECT_EQ(pieces[i].lane, kMain);
              // The input of a product is there before the piece starts, because no op of the piece
              // makes it.
              for (const model::Op& other : piece.ops) EXPECT_NE(other.output, op.inputs[0]);
            }
          }
        }
        EXPECT_EQ(n_ops, whole.ops.size()) << name << ", " << whole.name;
        EXPECT_EQ(n_shadow, n_products);
        EXPECT_EQ(n_sum, n_products);
      }
    }
  }
}

// Lanes that compute have an extraction before and reads beside. Products that ignore their
// outliers stay as they are.
TEST(Shadow, N4N5N6PiecesOfLanesThatCompute) {
  using lanes::Role;
  for (const char* name : {"qwen1.5-1.8b", "phi-2", "gemma-2b"}) {
    const Model m(name);
    for (const lanes::Subgraph& whole : cut_into_subgraphs(m.blueprint, {.at_norms = true})) {
      if (whole.is_dynamic() || whole.block() != 0) continue;
      model::WeightId ignored = model::kNone;  // becomes the input of the last product
      for (const model::Op& op : whole.ops) {
        if (op.kind == model::OpKind::kLinear) ignored = op.inputs[0];
      }
      if (ignored == model::kNone) continue;
      OutlierCut cut = lanes_of_outliers();
      cut.has_extraction = true;
      cut.keeps = [&](const model::Op& op) { return op.inputs[0] != ignored; };
      cut.reads = [&](const model::Op&) { return true; };
      const std::vector<Piece> pieces = lower(whole, {kMain, cut});
      size_t n_ops = 0;
      for (size_t i = 0; i < pieces.size(); ++i) {
        const lanes::Subgraph& piece = pieces[i].subgraph;
        const auto at = static_cast<int>(i);
        switch (piece.role) {
          case Role::kWhole: {
            n_ops += piece.ops.size();
            const bool has_product =
                std::any_of(piece.ops.begin(), piece.ops.end(),
                            [](const auto& op) { return op.kind == model::OpKind::kLinear; });
            if (has_product) {
              EXPECT_EQ(pieces[i].lane, kMain);
            }
            break;
          }
          case Role::kExtract:
            n_ops += piece.ops.size();
            ASSERT_LT(i + 4, pieces.size());
            EXPECT_EQ(pieces[i].lane, kShadow);
            EXPECT_EQ(pieces[i + 1].subgraph.role, Role::kProduct);
            EXPECT_EQ(pieces[i + 1].lane, kMain);
            EXPECT_EQ(pieces[i + 1].waits_for, std::vector<int>{at});
            EXPECT_EQ(pieces[i + 2].subgraph.role, Role::kRead);
            EXPECT_EQ(pieces[i + 2].lane, kRead);
            EXPECT_EQ(pieces[i + 2].waits_for, std::vector<int>{at});
            EXPECT_EQ(pieces[i + 3].subgraph.role, Role::kShadow);
            EXPECT_EQ(pieces[i + 3].waits_for, std::vector<int>{at + 2});
            EXPECT_EQ(pieces[i + 4].subgraph.role, Role::kSum);
            EXPECT_EQ(pieces[i + 4].waits_for, (std::vector<int>{at + 1, at + 3}));
            EXPECT_NE(piece.ops.front().inputs[0], ignored);
            break;
          default:
            break;
        }
      }
      EXPECT_EQ(n_ops, whole.ops.size()) << name << ", " << whole.name;
      cut.keeps = [](const model::Op&) { return false; };
      EXPECT_EQ(lower(whole, {kMain, cut}).size(), 1u);
    }
  }
}

}  // namespace
}  // namespace troika::schedule
