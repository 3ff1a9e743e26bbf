#include "attention/c_pass.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "attention/areas.h"
#include "attention/panel_attention.h"
#include "attention/query_attention.h"
#include "attention/tile_attention.h"
#include "tensor/half.h"

namespace troika::attention {
namespace {

constexpr size_t kLine = kernels::kLineBytes;
constexpr uint32_t kOnePage = 31;  // log2 of the slots of a single page that holds all slots

// Counts the positions of a call: those before its tokens, and the tokens' own.
size_t n_positions_of(const troika_attention_call& call) {
  return static_cast<size_t>(call.first_position) + static_cast<size_t>(call.n_tokens);
}

template <typename T>
T* after(const T* begin, size_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(begin) + bytes);
}

void to_floats(troika_attention_type type, const std::byte* row, size_t n, float* out) {
  if (type == TROIKA_ATTENTION_F32) {
    std::memcpy(out, row, n * sizeof(float));
    return;
  }
  for (size_t i = 0; i < n; ++i) {
    uint16_t half;
    std::memcpy(&half, row + i * sizeof(half), sizeof(half));
    out[i] = type == TROIKA_ATTENTION_F16 ? tensor::f16_to_f32(half) : tensor::bf16_to_f32(half);
  }
}

// Tokens of a call that attend in the same way, and how many of them make an item.
struct Stretch {
  size_t first = 0, last = 0, step = 1;

  size_t n_items() const { return (last - first + step - 1) / step; }
};

struct TokenStretches {
  // Tokens that see everything, tokens that choose, and those of a last tile that is not whole.
  Stretch before, chosen, behind;

  TokenStretches(const troika_attention& attention, const troika_attention_call& call) {
    const auto n = static_cast<size_t>(call.n_tokens);
    const auto position = static_cast<size_t>(call.first_position);
    const auto from = static_cast<size_t>(attention.options.from);
    const size_t together = tokens_together(attention.n_group());
    size_t first = n, last = n;
    if (attention.options.mode == TROIKA_ATTENTION_SPARSE) {
      const size_t begin = (std::max(position, from) + kTileTokens - 1) / kTileTokens * kTileTokens;
      first = std::min(n, begin - position);
      last = first + (n - first) / kTileTokens * kTileTokens;
    } else if (attention.options.mode == TROIKA_ATTENTION_QUERY) {
      first = std::min(n, std::max(position, from) - position);
    }
    before = {0, first, together};
    const bool is_sparse = attention.options.mode == TROIKA_ATTENTION_SPARSE;
    // Where tiles are few, each is an item of its own, so that all workers have some.
    const size_t n_tiles = (last - first) / kTileTokens * attention.n_kv_heads();
    const size_t most = n_tiles / (2 * static_cast<size_t>(call.n_workers));
    const size_t tiles = std::clamp<size_t>(most, 1, tiles_together(attention.n_group()));
    chosen = {first, last, is_sparse ? kTileTokens * tiles : kTileTokens};
    behind = {last, n, together};
  }
  size_t n_items() const { return before.n_items() + chosen.n_items() + behind.n_items(); }
};

// The memory that workers share, and the memory of each worker.
struct Rooms {
  uint32_t* slots;  // (n_positions); null: the caller's slots are used
  float* keys;      // (n_kv_heads, n_positions, head_size), where they come in bfloat16
  float* values;    // like `keys`
  std::byte* workers;
  size_t worker_bytes;
  size_t bytes;

  Rooms(const troika_attention& attention, const troika_attention_call& call, std::byte* begin) {
    Areas areas(begin);
    const size_t n = n_positions_of(call);
    const size_t n_floats = attention.n_kv_heads() * n * attention.head_size();
    const bool has_floats = call.k.type == TROIKA_ATTENTION_BF16 || call.v.type != call.k.type;
    slots = call.slots == nullptr || has_floats ? areas.take<uint32_t>(n) : nullptr;
    keys = has_floats ? areas.take<float>(n_floats) : nullptr;
    values = has_floats ? areas.take<float>(n_floats) : nullptr;
    worker_bytes = WorkerRoom(attention, call, nullptr).bytes;
    workers = areas.take<std::byte>(worker_bytes * static_cast<size_t>(call.n_workers));
    bytes = areas.bytes();
  }

  struct WorkerRoom {
    float* q;    // (tokens, n_group, head_size)
    float* out;  // like `q`
    kernels::SeenPositions* seen;
    std::byte* work;
    std::byte* lists;
    size_t bytes;

    WorkerRoom(const troika_attention& attention, const troika_attention_call& call,
               std::byte* begin) {
      Areas areas(begin);
      const size_t n = n_positions_of(call);
      const size_t n_group = attention.n_group(), head_size = attention.head_size();
      const size_t together = tokens_together(n_group), tiles = tiles_together(n_group);
      const size_t n_tokens = std::max(together, tiles * kTileTokens);
      q = areas.take<float>(n_tokens * n_group * head_size);
      out = areas.take<float>(n_tokens * n_group * head_size);
      seen = areas.take<kernels::SeenPositions>(together);
      size_t work_bytes = PanelRoom{head_size, n_group, together, together}.bytes(), list_bytes = 0;
      if (attention.options.mode == TROIKA_ATTENTION_SPARSE) {
        const TileRoom room = {head_size, n_group, tiles};
        work_bytes = std::max(work_bytes, room.bytes());
        list_bytes = room.list_bytes(n);
      } else if (attention.options.mode == TROIKA_ATTENTION_QUERY) {
        list_bytes = QueryRoom{head_size, n_group}.bytes(n);
      }
      work = areas.take<std::byte>(work_bytes);
      lists = areas.take<std::byte>(list_bytes);
      bytes = areas.bytes();
    }
  };
};

// One call: what the caller hands over becomes positions and queries, and tiles become items of the
// caller's pool.
class Call {
 public:
  Call(const troika_attention& attention, const troika_attention_call& call)
      : attention_(attention),
        call_(call),
        n_positions_(n_positions_of(call)),
        stretches_(attention, call),
        rooms_(attention, call, begin_of(call)) {}

  void run() {
    if (rooms_.slots != nullptr) {
      for (size_t p = 0; p < n_positions_; ++p) rooms_.slots[p] = static_cast<uint32_t>(p);
    }
    if (rooms_.keys != nullptr) {
      over(attention_.n_kv_heads(), [](void* call, int64_t item, int32_t) {
        static_cast<Call*>(call)->convert(static_cast<size_t>(item));
      });
    }
    over(stretches_.n_items() * attention_.n_kv_heads(),
         [](void* call, int64_t item, int32_t worker) {
           static_cast<Call*>(call)->attend(static_cast<size_t>(item), static_cast<size_t>(worker));
         });
  }

 private:
  static std::byte* begin_of(const troika_attention_call& call) {
    const auto address = reinterpret_cast<uintptr_t>(call.workspace);
    return static_cast<std::byte*>(call.workspace) + (kLine - address % kLine) % kLine;
  }

  void over(size_t n_items, void (*item)(void*, int64_t, int32_t)) {
    const auto n = static_cast<int64_t>(n_items);
    if (call_.pool != nullptr) {
      call_.pool(call_.pool_user, n, item, this);
    } else {
      for (int64_t i = 0; i < n; ++i) item(this, i, 0);
    }
  }

  size_t row_of(size_t position) const {
    return call_.slots == nullptr ? position : call_.slots[position];
  }
  // Converts keys and values of a head to floats, position by position.
  void convert(size_t kv_head) {
    const size_t d = attention_.head_size();
    for (size_t p = 0; p < n_positions_; ++p) {
      const size_t to = (kv_head * n_positions_ + p) * d;
      for (const auto& [rows, out] :
           {std::pair(&call_.k, rooms_.keys + to), std::pair(&call_.v, rooms_.values + to)}) {
        const auto* const data = static_cast<const std::byte*>(rows->data);
        to_floats(rows->type, data + kv_head * rows->head_bytes + row_of(p) * rows->row_bytes, d,
                  out);
      }
    }
  }

  struct Head {
    const std::byte* pages[2];
    Positions positions;
  };
  // Shows positions below n of a head. `head` must stay where it is meanwhile.
  void see(size_t kv_head, size_t n, Head* head) const {
    const size_t d = attention_.head_size();
    const bool has_floats = rooms_.keys != nullptr;
    const auto view = [&](const troika_attention_rows& rows, const float* floats, size_t i) {
      kernels::KvView view;
      head->pages[i] = has_floats
                           ? reinterpret_cast<const std::byte*>(floats + kv_head * n_positions_ * d)
                           : static_cast<const std::byte*>(rows.data) + kv_head * rows.head_bytes;
      view.pages = &head->pages[i];
      view.page_slots_log2 = kOnePage;
      view.slot_bytes = has_floats ? d * sizeof(float) : rows.row_bytes;
      view.type =
          has_floats || rows.type == TROIKA_ATTENTION_F32 ? tensor::Type::kF32 : tensor::Type::kF16;
      return view;
    };
    head->positions.k = view(call_.k, rooms_.keys, 0);
    head->positions.v = view(call_.v, rooms_.values, 1);
    head->positions.past = {rooms_.slots != nullptr ? rooms_.slots : call_.slots, n};
  }

  void attend(size_t item, size_t worker) {
    const size_t kv_head = item % attention_.n_kv_heads();
    size_t i = item / attention_.n_kv_heads();
    const Stretch* stretch = &stretches_.before;
    for (const Stretch* next : {&stretches_.chosen, &stretches_.behind}) {
      if (i < stretch->n_items()) break;
      i -= stretch->n_items();
      stretch = next;
    }
    const size_t first = stretch->first + i * stretch->step;
    const size_t last = std::min(first + stretch->step, stretch->last);
    const Rooms::WorkerRoom room(attention_, call_, rooms_.workers + worker * rooms_.worker_bytes);
    copy_queries(first, last, kv_head, room.q);
    compute(stretch == &stretches_.chosen, first, last, kv_head, room);
    copy_results(first, last, kv_head, room.out);
  }

  void compute(bool chooses, size_t first, size_t last, size_t kv_head,
               const Rooms::WorkerRoom& room) const {
    const size_t n_group = attention_.n_group(), d = attention_.head_size();
    const auto begin = static_cast<size_t>(call_.first_position) + first;
    const size_t n_tokens = last - first;
    Head head;
    see(kv_head, begin + n_tokens, &head);
    const Queries queries = {room.q,
                             room.out,
                             n_group * d,
                             d,
                             n_group,
                             attention_.options.scale,
                             attention_.options.soft_cap};
    if (chooses && attention_.options.mode == TROIKA_ATTENTION_SPARSE) {
      attend_tiles(attention_.table, head.positions, queries, begin, choice_of(kv_head),
                   {d, n_group, n_tokens / kTileTokens}, room.work, room.lists);
    } else if (chooses) {
      const auto share_of = [&](size_t h) { return attention_.share_of(kv_head * n_group + h); };
      // A reference takes no memory of its own.
      attend_by_query(attention_.table, head.positions, queries, begin, n_tokens,
                      std::cref(share_of), {}, {d, n_group}, room.lists);
    } else {
      const size_t together = tokens_together(n_group);
      for (size_t t = 0; t < n_tokens; ++t) room.seen[t] = {0, begin + t + 1};
      attend_in_panels(attention_.table, head.positions, queries, {room.seen, n_tokens},
                       {d, n_group, together, together}, room.work);
    }
  }

  TileChoice choice_of(size_t kv_head) const {
    const double above = attention_.options.above;
    return {above > 0.0 ? ChoiceRule::kWeighty : ChoiceRule::kPositions,
            attention_.group_share(kv_head), above};
  }

  void copy_queries(size_t first, size_t last, size_t kv_head, float* q) const {
    const size_t n_group = attention_.n_group(), d = attention_.head_size();
    const auto* const data = static_cast<const std::byte*>(call_.q.data);
    for (size_t t = first; t < last; ++t) {
      for (size_t h = kv_head * n_group; h < (kv_head + 1) * n_group; ++h, q += d) {
        to_floats(call_.q.type, data + t * call_.q.row_bytes + h * call_.q.head_bytes, d, q);
      }
    }
  }
  void copy_results(size_t first, size_t last, size_t kv_head, const float* out) const {
    const size_t n_group = attention_.n_group(), d = attention_.head_size();
    for (size_t t = first; t < last; ++t) {
      for (size_t h = kv_head * n_group; h < (kv_head + 1) * n_group; ++h, out += d) {
        std::memcpy(after(call_.out, t * call_.out_row_bytes + h * call_.out_head_bytes), out,
                    d * sizeof(float));
      }
    }
  }

  const troika_attention& attention_;
  const troika_attention_call& call_;
  size_t n_positions_;
  TokenStretches stretches_;
  Rooms rooms_;
};

}  // namespace

size_t workspace_bytes(const troika_attention& attention, const troika_attention_call& call) {
  return Rooms(attention, call, nullptr).bytes + kLine;
}

void run_pass(const troika_attention& attention, const troika_attention_call& call) {
  Call(attention, call).run();
}

}  // namespace troika::attention
