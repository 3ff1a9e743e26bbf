#include <fmt/format.h>

#include "bench/record/record.h"
#include "bench/weights.h"

namespace troika::bench {
namespace {

using tensor::Type;

// Holds keys and values of many layers, so that none is found in a cache of the processor.
class CachePool {
 public:
  CachePool(const kernels::Table& table, Type type, size_t head_size, size_t n_positions)
      : type_(type), head_bytes_(tensor::row_bytes(type, head_size)) {
    const size_t page_bytes = kHeads * (head_bytes_ << kPageLog2);
    n_pages_ = n_positions >> kPageLog2;
    n_layers_ = kPoolBytes / (2 * n_pages_ * page_bytes);
    bytes_.resize(2 * n_layers_ * n_pages_ * page_bytes);
    const std::vector<float> x = random_floats(head_size, 1.0f);
    table.store_kv(type, x.data(), bytes_.data(), head_size);
    for (size_t i = head_bytes_; i < bytes_.size(); i += head_bytes_) {
      std::memcpy(bytes_.data() + i, bytes_.data(), head_bytes_);
    }
    for (size_t i = 0; i < bytes_.size(); i += page_bytes) pages_.push_back(bytes_.data() + i);
  }

  // Returns keys (part 0) or values (part 1) of the turn-th layer.
  kernels::KvView view(size_t turn, size_t part, size_t head) const {
    return {pages_.data() + (2 * (turn % n_layers_) + part) * n_pages_, kPageLog2, head_bytes_,
            head * (head_bytes_ << kPageLog2), type_};
  }
  // Returns the bytes of a layer's keys and values, which lie behind each other.
  size_t layer_bytes() const { return 2 * n_pages_ * kHeads * (head_bytes_ << kPageLog2); }

  static constexpr size_t kHeads = 2;
  static constexpr uint32_t kPageLog2 = 8;

 private:
  Type type_;
  size_t head_bytes_, n_pages_ = 0, n_layers_ = 0;
  std::vector<std::byte> bytes_;
  std::vector<const std::byte*> pages_;
};

struct Case {
  size_t head_size;
  Type type;
  size_t n_positions;
  size_t group;  // counts query heads for each head of the cache
};

void record_one(const Recorder& recorder, const CachePool& pool, const Case& c) {
  std::vector<uint32_t> slots(c.n_positions);
  for (size_t i = 0; i < c.n_positions; ++i) slots[i] = static_cast<uint32_t>(i);
  const std::vector<float> q = random_floats(c.group * c.head_size, 1.0f);
  std::vector<float> out(q.size());
  const auto attend = [&](size_t turn) {
    for (size_t head = 0; head < CachePool::kHeads; ++head) {
      kernels::Attention args;
      args.q = q.data();
      args.out = out.data();
      args.q_stride = args.out_stride = c.head_size;
      args.n_heads = static_cast<uint32_t>(c.group);
      args.head_size = static_cast<uint32_t>(c.head_size);
      args.k = pool.view(2 * turn, 0, head);
      args.v = pool.view(2 * turn, 1, head);
      args.prefix = slots;
      args.scale = 0.1f;
      recorder.kernels.table.attention(args);
    }
  };
  const auto read_as_much = [&](size_t turn) {
    read(recorder.probes, pool.view(2 * turn + 1, 0, 0).pages[0], pool.layer_bytes());
  };
  recorder.add({recorder.name,
                fmt::format("attention, head size {}, {} heads share {}, context {}", c.head_size,
                            c.group, tensor::type_name(c.type), c.n_positions),
                compare(recorder.n_pairs, attend, read_as_much)});
}

}  // namespace

void record_attention(const Recorder& recorder) {
  for (const size_t head_size : {64, 80, 96, 128, 256}) {
    for (const Type type : {Type::kF16, Type::kQ8_0}) {
      if (type == Type::kQ8_0 && head_size % 32 != 0) continue;
      for (const size_t n_positions : {512, 4096}) {
        const CachePool pool(recorder.kernels.table, type, head_size, n_positions);
        for (const size_t group : {1, 6}) {
          record_one(recorder, pool, {head_size, type, n_positions, group});
        }
      }
    }
  }
}

}  // namespace troika::bench
