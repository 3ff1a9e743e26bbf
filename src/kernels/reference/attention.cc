#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "kernels/kv.h"
#include "kernels/reference/reference.h"
#include "kernels/reference/values.h"
#include "tensor/codec.h"
#include "tensor/half.h"
#include "tensor/q8_0.h"

namespace troika::kernels::reference {
namespace {

double score(const Attention& args, const float* q, uint32_t slot) {
  float k[kMaxHeadSize];
  tensor::dequantize_row(args.k.type, kv_row(args.k, slot), k, args.head_size);
  double dot = 0;
  for (uint32_t i = 0; i < args.head_size; ++i) dot += static_cast<double>(q[i]) * k[i];
  dot *= args.scale;
  return args.soft_cap > 0 ? args.soft_cap * std::tanh(dot / args.soft_cap) : dot;
}

// Computes the part of positions [first, last) for one query head.
void attend(const Attention& args, const float* q, size_t first, size_t last, float* part) {
  double largest = -std::numeric_limits<double>::infinity();
  for (size_t i = first; i < last; ++i) {
    largest = std::max(largest, score(args, q, visible_slot(args, i)));
  }
  double sums[kMaxHeadSize] = {};
  double total = 0;
  for (size_t i = first; i < last; ++i) {
    const uint32_t slot = visible_slot(args, i);
    const double weight = std::exp(score(args, q, slot) - largest);
    float v[kMaxHeadSize];
    tensor::dequantize_row(args.v.type, kv_row(args.v, slot), v, args.head_size);
    for (uint32_t j = 0; j < args.head_size; ++j) sums[j] += weight * v[j];
    total += weight;
  }
  part[0] = static_cast<float>(largest);
  part[1] = static_cast<float>(total);
  for (uint32_t j = 0; j < args.head_size; ++j) part[2 + j] = static_cast<float>(sums[j]);
}

// Joins the segments of one query head, one after the other.
class Merged {
 public:
  explicit Merged(uint32_t head_size) : head_size_(head_size) {}

  void add(const float* part) {
    const double largest = std::max(largest_, static_cast<double>(part[0]));
    const double mine = std::exp(largest_ - largest), theirs = std::exp(part[0] - largest);
    total_ = total_ * mine + part[1] * theirs;
    for (uint32_t j = 0; j < head_size_; ++j) sums_[j] = sums_[j] * mine + part[2 + j] * theirs;
    largest_ = largest;
  }
  void store(float* out) const {
    for (uint32_t j = 0; j < head_size_; ++j) {
      // The total is 0 where there is no position, and no number where a score is none.
      out[j] = total_ == 0 ? 0 : static_cast<float>(sums_[j] / total_);
    }
  }

 private:
  uint32_t head_size_;
  double largest_ = -std::numeric_limits<double>::infinity();
  double total_ = 0;
  double sums_[kMaxHeadSize] = {};
};

}  // namespace

void attention_segment(const Attention& args, size_t segment, float* part) {
  TROIKA_ASSERT(args.head_size <= kMaxHeadSize);
  const size_t first = segment * kAttentionSegment;
  const size_t last = std::min(first + kAttentionSegment, args.prefix.size() + args.own.size());
  for (uint32_t h = 0; h < args.n_heads; ++h) {
    attend(args, args.q + h * args.q_stride, first, last,
           part + h * attention_part_floats(args.head_size));
  }
}

void attention_merge(const Attention& args, const float* parts) {
  const size_t part_floats = attention_part_floats(args.head_size);
  for (uint32_t h = 0; h < args.n_heads; ++h) {
    Merged merged(args.head_size);
    for (size_t s = 0; s < n_attention_segments(args); ++s) {
      merged.add(parts + (s * args.n_heads + h) * part_floats);
    }
    merged.store(args.out + h * args.out_stride);
  }
}

void attention(const Attention& args) {
  for (uint32_t h = 0; h < args.n_heads; ++h) {
    Attention one = args;
    one.q = args.q + h * args.q_stride;
    one.n_heads = 1;
    Merged merged(args.head_size);
    for (size_t s = 0; s < n_attention_segments(args); ++s) {
      float part[attention_part_floats(kMaxHeadSize)];
      attention_segment(one, s, part);
      merged.add(part);
    }
    merged.store(args.out + h * args.out_stride);
  }
}

void attention_tile(const AttentionTile& tile) {
  for (size_t t = 0; t < tile.seen.size(); ++t) attention(token_of(tile, t));
}

void store_kv(Type type, const float* x, std::byte* row, size_t n) {
  tensor::quantize_row(type, x, row, n);
  if (type != Type::kQ8_0) return;
  // The codec makes 0 of what is no number, and clips what is too large, as files want it. A cache
  // must not hide that from who reads it.
  constexpr size_t kBlock = 32;
  constexpr float kLargest = 127.0f * tensor::kMaxF16;
  for (size_t i = 0; i < n; i += kBlock) {
    const auto has_room = [](float value) { return std::fabs(value) <= kLargest; };
    if (std::all_of(x + i, x + i + kBlock, has_room)) continue;
    const uint16_t no_number = tensor::f32_to_f16(kNoNumber);
    std::memcpy(row + i / kBlock * sizeof(tensor::BlockQ8_0), &no_number, sizeof no_number);
  }
}

}  // namespace troika::kernels::reference
