#include "lanes/host/prompt_attention.h"

#include <algorithm>
#include <cstring>

#include "kernels/kv.h"
#include "lanes/host/attention_args.h"

namespace troika::lanes {
namespace {

using kernels::kPanelRows;
using kernels::kPromptBlock;

// Queries of an item: many share what is unpacked of keys and values, and all of their buffers fit
// a second-level cache.
constexpr int kQueriesTogether = 320;
constexpr size_t kKeyBytes = kernels::kMaxHeadSize * sizeof(float);  // of one head, at most

// What the shapes come to.
struct Shape {
  size_t head_dim;
  size_t n_group;   // query heads that share keys and values
  size_t n_tokens;  // of an item
  size_t n_queries;

  explicit Shape(const BoundAttention& attention)
      : head_dim(static_cast<size_t>(attention.head_dim)),
        n_group(static_cast<size_t>(attention.n_group)),
        n_tokens(std::max<size_t>(1, kQueriesTogether / n_group)),
        n_queries(n_tokens * n_group) {}

  size_t query_bytes() const { return kernels::bf16_token_bytes(head_dim); }
  static constexpr size_t weight_bytes() { return kernels::bf16_token_bytes(kPromptBlock); }
  size_t key_strip_length() const { return kernels::bf16_depth(head_dim) * kPanelRows; }
};

// One worker's buffers, each at a multiple of 64 bytes.
struct Workspace {
  std::byte* queries;  // (n_queries, query_bytes), scaled
  float* scores;       // (n_queries, kPromptBlock)
  std::byte* weights;  // (n_queries, weight_bytes)
  float* sums;         // (n_queries, head_dim)
  float* scaled;       // (head_dim)
  kernels::OnlineSoftmax* softmax;
  uint16_t* keys;                // strips of 16 positions
  uint16_t* values;              // strips of 16 elements
  std::byte* rows;               // (16, kKeyBytes): keys side by side
  const std::byte** value_rows;  // (kPromptBlock)
  size_t bytes = 0;

  Workspace(const Shape& shape, std::byte* begin) {
    const size_t n = shape.n_queries;
    const size_t n_value_strips = kernels::n_strips(shape.head_dim);
    take(begin, n * shape.query_bytes(), &queries);
    take(begin, n * kPromptBlock * sizeof(float), &scores);
    take(begin, n * Shape::weight_bytes(), &weights);
    take(begin, n * shape.head_dim * sizeof(float), &sums);
    take(begin, shape.head_dim * sizeof(float), &scaled);
    take(begin, n * sizeof(kernels::OnlineSoftmax), &softmax);
    take(begin, kPromptBlock / kPanelRows * shape.key_strip_length() * sizeof(uint16_t), &keys);
    take(begin, n_value_strips * kPanelRows * kPromptBlock * sizeof(uint16_t), &values);
    take(begin, kPanelRows * kKeyBytes, &rows);
    take(begin, kPromptBlock * sizeof(const std::byte*), &value_rows);
  }

 private:
  template <typename T>
  void take(std::byte* begin, size_t n_bytes, T** where) {
    *where = begin == nullptr ? nullptr : reinterpret_cast<T*>(begin + bytes);
    bytes += (n_bytes + kernels::kLineBytes - 1) / kernels::kLineBytes * kernels::kLineBytes;
  }
};

class PromptAttention {
 public:
  PromptAttention(const BoundOp& bound, const OpContext& context, int worker, size_t head)
      : step_(bound),
        context_(context),
        run_(context.run),
        kv_(run_.kv->shape()),
        head_(head),
        shape_(bound.as<BoundAttention>()),
        unpack_keys_(kernels::find(context.kernels.unpack_bf16, kv_.type)),
        buffers_(shape_, context.stretch_of(worker)) {
    const size_t offset = run_.kv->head_offset_bytes(static_cast<int>(head));
    args_.k = {run_.kv->key_pages(bound.op.layer), cache::KvCache::kPageSlotsLog2, kv_.head_bytes(),
               offset, kv_.type};
    args_.v = args_.k;
    args_.v.pages = run_.kv->value_pages(bound.op.layer);
  }

  // Tokens whose lists do not continue each other are taken apart.
  void attend(Tokens tokens) {
    while (tokens.first < tokens.last) {
      const Tokens together = seeing_together(run_, tokens);
      attend_together(together);
      tokens.first = together.last;
    }
  }

 private:
  // A token sees the positions first_seen .. n_visible of its list.
  size_t n_visible(size_t token) const { return run_.visible[token].size(); }
  size_t first_seen(size_t token) const { return lanes::first_seen(step_, run_, token); }
  // Returns how many positions at the beginning of a block a token no longer sees.
  size_t n_hidden(size_t token, size_t block) const {
    const size_t first = first_seen(token);
    return first > block ? first - block : 0;
  }
  size_t n_queries(Tokens tokens) const { return (tokens.last - tokens.first) * shape_.n_group; }
  // Returns where the queries of the group's first head begin.
  size_t query_offset(size_t token) const {
    return token * static_cast<size_t>(step_.output_width) +
           head_ * shape_.n_group * shape_.head_dim;
  }

  void attend_together(Tokens tokens) {
    prepare_queries(tokens);
    args_.prefix = run_.visible[tokens.last - 1].past;
    args_.own = run_.visible[tokens.last - 1].own;
    const size_t n_positions = n_visible(tokens.last - 1);
    const size_t begin = first_seen(tokens.first) / kPromptBlock * kPromptBlock;
    for (size_t first = begin; first < n_positions; first += kPromptBlock) {
      // Tokens that see nothing of this block are left out.
      Tokens seeing = tokens;
      while (n_visible(seeing.first) <= first) ++seeing.first;
      while (first_seen(seeing.last - 1) >= first + kPromptBlock) --seeing.last;
      const size_t n = std::min(kPromptBlock, n_positions - first);
      score(seeing, n_queries({tokens.first, seeing.first}), first, n);
      weigh(seeing, n_queries({tokens.first, seeing.first}), first);
      add_values(seeing, n_queries({tokens.first, seeing.first}), first, n);
    }
    write(tokens);
  }

  void prepare_queries(Tokens tokens) {
    const size_t n = n_queries(tokens);
    std::fill_n(buffers_.sums, n * shape_.head_dim, 0.0f);
    std::fill_n(buffers_.softmax, n, kernels::OnlineSoftmax());
    std::byte* query = buffers_.queries;
    for (size_t token = tokens.first; token < tokens.last; ++token) {
      const float* q = context_.input(step_) + query_offset(token);
      for (size_t h = 0; h < shape_.n_group; ++h, q += shape_.head_dim) {
        context_.kernels.scale(q, step_.op.scale, buffers_.scaled, shape_.head_dim);
        context_.kernels.narrow_bf16(buffers_.scaled, query, shape_.head_dim);
        query += shape_.query_bytes();
      }
    }
  }

  // The products of the queries from `query` on with the keys of n positions.
  void score(Tokens seeing, size_t query, size_t first, size_t n) {
    const size_t head_bytes = kv_.head_bytes();
    for (size_t p = 0; p < n; p += kPanelRows) {
      const size_t n_rows = std::min(kPanelRows, n - p);
      for (size_t i = 0; i < n_rows; ++i) {
        const uint32_t slot = kernels::visible_slot(args_, first + p + i);
        std::memcpy(buffers_.rows + i * head_bytes, kernels::kv_row(args_.k, slot), head_bytes);
        buffers_.value_rows[p + i] = kernels::kv_row(args_.v, slot);
      }
      unpack_keys_({buffers_.rows, head_bytes, shape_.head_dim, 0, n_rows}, 0,
                   kernels::bf16_depth(shape_.head_dim),
                   buffers_.keys + p / kPanelRows * shape_.key_strip_length());
    }
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(n);
    product.n_tokens = n_queries(seeing);
    product.x = buffers_.queries + query * shape_.query_bytes();
    product.x_stride_bytes = shape_.query_bytes();
    product.y = buffers_.scores + query * kPromptBlock;
    product.y_stride = kPromptBlock;
    context_.kernels.matmul_bf16(
        {buffers_.keys, n, kernels::bf16_depth(shape_.head_dim), true, true}, product);
  }

  // The scores of the positions hidden .. n of a block of a query become weights.
  float weigh_query(size_t query, size_t hidden, size_t n) {
    float* scores = buffers_.scores + query * kPromptBlock;
    const float cap = step_.op.soft_cap;
    if (cap > 0.0f) {
      context_.kernels.soft_cap(scores + hidden, cap, scores + hidden, n - hidden);
    }
    auto* weights = reinterpret_cast<uint16_t*>(buffers_.weights + query * Shape::weight_bytes());
    if (hidden == 0) {
      return context_.kernels.weigh_scores(scores, n, &buffers_.softmax[query], weights);
    }
    alignas(64) uint16_t seen[kPromptBlock];
    const float factor =
        context_.kernels.weigh_scores(scores + hidden, n - hidden, &buffers_.softmax[query], seen);
    std::fill_n(weights, hidden, uint16_t{0});
    std::copy_n(seen, kPromptBlock - hidden, weights + hidden);
    return factor;
  }

  void weigh(Tokens seeing, size_t query, size_t first) {
    for (size_t token = seeing.first; token < seeing.last; ++token) {
      const size_t n = std::min(kPromptBlock, n_visible(token) - first);
      const size_t hidden = n_hidden(token, first);
      for (size_t h = 0; h < shape_.n_group; ++h, ++query) {
        const float factor = weigh_query(query, hidden, n);
        if (factor == 1.0f) continue;
        float* sums = buffers_.sums + query * shape_.head_dim;
        context_.kernels.scale(sums, factor, sums, shape_.head_dim);
      }
    }
  }

  // Some queries' weights times the values of n positions.
  void multiply(size_t query, size_t n_queries, size_t n, const uint16_t* values) {
    kernels::PanelProduct product;
    product.last_strip = kernels::n_strips(shape_.head_dim);
    product.n_tokens = n_queries;
    product.x = buffers_.weights + query * Shape::weight_bytes();
    product.x_stride_bytes = Shape::weight_bytes();
    product.y = buffers_.sums + query * shape_.head_dim;
    product.y_stride = shape_.head_dim;
    context_.kernels.matmul_bf16({values, shape_.head_dim, kernels::bf16_depth(n), false, true},
                                 product);
  }

  void add_values(Tokens seeing, size_t query, size_t first, size_t n) {
    context_.kernels.pack_values(kv_.type, buffers_.value_rows, n, shape_.head_dim,
                                 buffers_.values);
    const size_t n_values =
        kernels::n_strips(shape_.head_dim) * kPanelRows * kernels::bf16_depth(n);
    const bool all_see_all =
        n_visible(seeing.first) >= first + n && n_hidden(seeing.last - 1, first) == 0;
    // Weight 0 takes out what a token does not see, unless that is no number.
    if (all_see_all || std::none_of(buffers_.values, buffers_.values + n_values, is_no_number)) {
      multiply(query, n_queries(seeing), n, buffers_.values);
      return;
    }
    for (size_t token = seeing.last; token-- > seeing.first;) {
      if (step_.op.window > 0) {  // other tokens hide other beginnings
        context_.kernels.pack_values(kv_.type, buffers_.value_rows, n, shape_.head_dim,
                                     buffers_.values);
      }
      hide_values(0, n_hidden(token, first), n);
      hide_values(n_visible(token) - first, kernels::bf16_depth(n), n);
      multiply(query + (token - seeing.first) * shape_.n_group, shape_.n_group, n, buffers_.values);
    }
  }
  static bool is_no_number(uint16_t value) { return (value & 0x7f80u) == 0x7f80u; }
  // Makes zeros of the values of the positions first .. last of the n of a block.
  void hide_values(size_t first, size_t last, size_t n) {
    const size_t depth = kernels::bf16_depth(n);
    for (size_t strip = 0; strip < kernels::n_strips(shape_.head_dim); ++strip) {
      uint16_t* lines = buffers_.values + strip * kPanelRows * depth;
      for (size_t p = first; p < last; ++p) {
        for (size_t i = 0; i < kPanelRows; ++i) {
          lines[p / 2 * 2 * kPanelRows + 2 * i + p % 2] = 0;
        }
      }
    }
  }

  void write(Tokens tokens) {
    size_t query = 0;
    for (size_t token = tokens.first; token < tokens.last; ++token) {
      float* out = context_.output(step_) + query_offset(token);
      for (size_t h = 0; h < shape_.n_group; ++h, ++query, out += shape_.head_dim) {
        const float total = buffers_.softmax[query].total;
        context_.kernels.scale(buffers_.sums + query * shape_.head_dim,
                               n_visible(token) > 0 ? 1.0f / total : 0.0f, out, shape_.head_dim);
      }
    }
  }

  const BoundOp& step_;
  const OpContext& context_;
  const Run& run_;
  const cache::KvShape& kv_;
  size_t head_;
  Shape shape_;
  kernels::UnpackBf16* unpack_keys_;
  Workspace buffers_;
  kernels::Attention args_;  // where keys and values lie
};

}  // namespace

int64_t n_prompt_attention_items(const BoundAttention& attention, const Run& run) {
  const size_t n_tokens = Shape(attention).n_tokens;
  const size_t n_parts = (static_cast<size_t>(run.n_tokens) + n_tokens - 1) / n_tokens;
  return static_cast<int64_t>(n_parts) * attention.n_heads();
}

size_t prompt_attention_bytes(const BoundAttention& attention) {
  return Workspace(Shape(attention), nullptr).bytes;
}

void run_prompt_attention(const BoundOp& bound, const OpContext& context, int worker,
                          int64_t item) {
  const auto& attention = bound.as<BoundAttention>();
  const auto n_heads = static_cast<size_t>(attention.n_heads());
  const auto index = static_cast<size_t>(item);
  const size_t n_together = Shape(attention).n_tokens;
  const auto n_tokens = static_cast<size_t>(context.run.n_tokens);
  const size_t first = index / n_heads * n_together;
  PromptAttention(bound, context, worker,
                  static_cast<size_t>(attention.first_head) + index % n_heads)
      .attend({first, std::min(first + n_together, n_tokens)});
}

}  // namespace troika::lanes
