#include "forge/plant_sites.h"

#include <algorithm>
#include <optional>

namespace troika::forge {
namespace {

using model::Activation;
using model::Blueprint;
using model::kNone;
using model::Op;
using model::OpKind;
using model::ValueId;
using model::Weight;
using model::WeightId;

class SiteFinder {
 public:
  explicit SiteFinder(const Blueprint& blueprint) : blueprint_(blueprint), ops_(blueprint.ops) {}

  std::vector<PlantSite> find() const {
    std::vector<PlantSite> sites;
    for (size_t i = 0; i < ops_.size(); ++i) {
      std::optional<PlantSite> site = site_made_by(i);
      if (site) sites.push_back(std::move(*site));
    }
    return sites;
  }

  std::vector<ScoreSite> find_scores() const {
    std::vector<ScoreSite> sites;
    for (size_t i = 0; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (op.kind != OpKind::kAttention) continue;
      const std::vector<ChannelMaker> queries = made_up_to_rotation(op.inputs[0], i);
      const std::vector<ChannelMaker> keys = made_up_to_rotation(op.inputs[1], i);
      if (queries.empty() || keys.empty()) continue;
      sites.push_back({op.layer, queries, keys, blueprint_.n_kv_heads,
                       blueprint_.n_heads / blueprint_.n_kv_heads, blueprint_.head_dim});
    }
    return sites;
  }

 private:
  const Weight& weight(WeightId id) const { return blueprint_.weights[static_cast<size_t>(id)]; }

  // Returns the ops that read what op `maker` wrote, before it is overwritten. An op that works in
  // place reads first.
  std::vector<const Op*> readers_of(size_t maker) const {
    const ValueId value = ops_[maker].output;
    std::vector<const Op*> readers;
    for (size_t i = maker + 1; i < ops_.size(); ++i) {
      const Op& op = ops_[i];
      if (std::count(op.inputs.begin(), op.inputs.end(), value) > 0) readers.push_back(&op);
      if (op.output == value) break;
    }
    return readers;
  }

  // Returns the op that wrote `value` as op `reader` finds it.
  std::optional<size_t> maker_of(ValueId value, size_t reader) const {
    for (size_t i = reader; i-- > 0;) {
      if (ops_[i].output == value) return i;
    }
    return {};
  }

  // Says whether a tensor is the embedding: that of a tied model is also read in another way.
  bool is_embedding(const std::string& tensor) const {
    return std::any_of(ops_.begin(), ops_.end(), [&](const Op& op) {
      return op.kind == OpKind::kEmbed && weight(op.weight).name == tensor;
    });
  }

  static ChannelMaker rows_of(const Weight& weight) {
    return {.tensor = weight.name, .first = weight.first_row, .is_vector = false};
  }
  static ChannelMaker vector_of(const Weight& weight) {
    return {.tensor = weight.name, .first = weight.first_row, .is_vector = true};
  }

  bool add_norm(const Op& op, PlantSite* site) const {
    site->makers.push_back(vector_of(weight(op.weight)));
    if (op.bias != kNone) site->makers.push_back(vector_of(weight(op.bias)));
    site->n_channels = weight(op.weight).row_length;
    return true;
  }

  // Adds the product whose result op `user` reads and no other op does. Returns false where there
  // is none.
  bool add_product(ValueId value, size_t user, PlantSite* site) const {
    const std::optional<size_t> maker = maker_of(value, user);
    if (!maker || ops_[*maker].kind != OpKind::kLinear) return false;
    const std::vector<const Op*> readers = readers_of(*maker);
    if (readers.size() != 1 || readers[0] != &ops_[user]) return false;
    const Op& product = ops_[*maker];
    site->makers.push_back(rows_of(weight(product.weight)));
    if (product.bias != kNone) site->makers.push_back(vector_of(weight(product.bias)));
    site->n_channels = weight(product.weight).n_rows;
    return true;
  }

  // Returns what makes queries or keys; nothing where more than a rotation changes the product.
  std::vector<ChannelMaker> made_up_to_rotation(ValueId value, size_t user) const {
    std::optional<size_t> maker = maker_of(value, user);
    while (maker && ops_[*maker].kind == OpKind::kRope) {
      maker = maker_of(ops_[*maker].inputs[0], *maker);
    }
    if (!maker || ops_[*maker].kind != OpKind::kLinear) return {};
    const Op& product = ops_[*maker];
    std::vector<ChannelMaker> makers = {rows_of(weight(product.weight))};
    if (product.bias != kNone) makers.push_back(vector_of(weight(product.bias)));
    return makers;
  }

  bool add_makers(size_t index, PlantSite* site) const {
    const Op& op = ops_[index];
    switch (op.kind) {
      case OpKind::kRmsNorm:
      case OpKind::kLayerNorm:
        return add_norm(op, site);
      case OpKind::kGate:
        site->is_hidden = true;
        if (const std::optional<size_t> gate = maker_of(op.inputs[0], index);
            gate && ops_[*gate].kind == OpKind::kLinear) {
          site->gate = rows_of(weight(ops_[*gate].weight));
        }
        return add_product(op.inputs[1], index, site);
      case OpKind::kActivate:
        return op.activation == Activation::kRelu && add_product(op.inputs[0], index, site);
      case OpKind::kAttention:
        site->n_shared = blueprint_.n_heads / blueprint_.n_kv_heads;
        site->head_dim = blueprint_.head_dim;
        return add_product(op.inputs[2], index, site);
      default:
        return false;
    }
  }

  std::optional<PlantSite> site_made_by(size_t index) const {
    PlantSite site;
    if (!add_makers(index, &site)) return {};
    for (const Op* op : readers_of(index)) {
      if (op->kind != OpKind::kLinear || is_embedding(weight(op->weight).name)) return {};
      const Weight& w = weight(op->weight);
      site.readers.push_back({w.name, w.first_row, w.n_rows});
      site.layer = op->layer;
    }
    if (site.readers.empty()) return {};
    site.name = site.makers[0].tensor.substr(0, site.makers[0].tensor.rfind('.'));
    return site;
  }

  const Blueprint& blueprint_;
  const std::vector<Op>& ops_;
};

}  // namespace

std::vector<int> PlantSite::columns(int channel) const {
  if (head_dim == 0) return {channel};
  const int kv_head = channel / head_dim;
  std::vector<int> all;
  all.reserve(static_cast<size_t>(n_shared));
  for (int i = 0; i < n_shared; ++i) {
    all.push_back((kv_head * n_shared + i) * head_dim + channel % head_dim);
  }
  return all;
}

std::vector<PlantSite> find_plant_sites(const Blueprint& blueprint) {
  return SiteFinder(blueprint).find();
}

std::vector<ScoreSite> find_score_sites(const Blueprint& blueprint) {
  return SiteFinder(blueprint).find_scores();
}

}  // namespace troika::forge
