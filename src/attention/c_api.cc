// The C API of attention alone (S9): what a caller hands over becomes positions and queries, tiles
// become items of the caller's pool, and errors become codes and sentences.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "attention/areas.h"
#include "attention/panel_attention.h"
#include "attention/query_attention.h"
#include "attention/tile_attention.h"
#include "base/error.h"
#include "kernels/choose.h"
#include "tensor/half.h"
#include "troika/attention.h"

struct troika_attention {
  troika::kernels::Table table;
  troika_attention_options options;
  std::vector<float> head_shares;  // (n_heads), or empty

  size_t n_group() const {
    return static_cast<size_t>(options.n_heads) / static_cast<size_t>(options.n_kv_heads);
  }
  size_t head_size() const { return static_cast<size_t>(options.head_size); }
  size_t n_kv_heads() const { return static_cast<size_t>(options.n_kv_heads); }
  double share_of(size_t head) const {
    return head_shares.empty() ? double{options.share} : double{head_shares[head]};
  }
  double group_share(size_t kv_head) const {
    double sum = 0;
    for (size_t h = 0; h < n_group(); ++h) sum += share_of(kv_head * n_group() + h);
    return sum / static_cast<double>(n_group());
  }
};

namespace troika::attention {
namespace {

constexpr size_t kLine = kernels::kLineBytes;
constexpr int32_t kUsualFrom = 1024;
constexpr float kUsualShare = 0.2f;
constexpr size_t kMostRowBytes = size_t{1} << 40;
constexpr int32_t kMostPositions = 1 << 27;
constexpr uint32_t kOnePage = 31;  // log2 of the slots of a page that holds all

template <typename T>
T* after(const T* begin, size_t bytes) {
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(begin) + bytes);
}

size_t element_bytes(troika_attention_type type) { return type == TROIKA_ATTENTION_F32 ? 4 : 2; }

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

// Tokens of a call that attend in the same way, in items of so many.
struct Stretch {
  size_t first = 0, last = 0, step = 1;

  size_t n_items() const { return (last - first + step - 1) / step; }
};

struct Parts {
  Stretch before, chosen, behind;  // those that see all, those that choose, and a last tile's

  Parts(const troika_attention& attention, const troika_attention_call& call) {
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
    // Few tiles go alone, so that all workers have some.
    const size_t n_tiles = (last - first) / kTileTokens * attention.n_kv_heads();
    const size_t most = n_tiles / (2 * static_cast<size_t>(call.n_workers));
    const size_t tiles = std::clamp<size_t>(most, 1, tiles_together(attention.n_group()));
    chosen = {first, last, is_sparse ? kTileTokens * tiles : kTileTokens};
    behind = {last, n, together};
  }
  size_t n_items() const { return before.n_items() + chosen.n_items() + behind.n_items(); }
};

// What the workers share, and what each has.
struct Rooms {
  uint32_t* slots;  // (n_positions); null: those of the caller
  float* keys;      // (n_kv_heads, n_positions, head_size) where they come as bfloat16
  float* values;    // likewise
  std::byte* workers;
  size_t worker_bytes;
  size_t bytes;

  Rooms(const troika_attention& attention, const troika_attention_call& call, std::byte* begin) {
    Areas areas(begin);
    const auto n = static_cast<size_t>(call.first_position + call.n_tokens);
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
    float* out;  // likewise
    kernels::SeenPositions* seen;
    std::byte* work;
    std::byte* lists;
    size_t bytes;

    WorkerRoom(const troika_attention& attention, const troika_attention_call& call,
               std::byte* begin) {
      Areas areas(begin);
      const auto n = static_cast<size_t>(call.first_position + call.n_tokens);
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

class Pass {
 public:
  Pass(const troika_attention& attention, const troika_attention_call& call)
      : attention_(attention),
        call_(call),
        n_positions_(static_cast<size_t>(call.first_position + call.n_tokens)),
        parts_(attention, call),
        rooms_(attention, call, begin_of(call)) {}

  void run() {
    if (rooms_.slots != nullptr) {
      for (size_t p = 0; p < n_positions_; ++p) rooms_.slots[p] = static_cast<uint32_t>(p);
    }
    if (rooms_.keys != nullptr) {
      over(attention_.n_kv_heads(), [](void* pass, int64_t item, int32_t) {
        static_cast<Pass*>(pass)->convert(static_cast<size_t>(item));
      });
    }
    over(parts_.n_items() * attention_.n_kv_heads(), [](void* pass, int64_t item, int32_t worker) {
      static_cast<Pass*>(pass)->attend(static_cast<size_t>(item), static_cast<size_t>(worker));
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
  // Keys and values of a head as floats, position by position.
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
  // Positions below n of a head. `head` stays where it is.
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
    const Stretch* stretch = &parts_.before;
    for (const Stretch* next : {&parts_.chosen, &parts_.behind}) {
      if (i < stretch->n_items()) break;
      i -= stretch->n_items();
      stretch = next;
    }
    const size_t first = stretch->first + i * stretch->step;
    const size_t last = std::min(first + stretch->step, stretch->last);
    const Rooms::WorkerRoom room(attention_, call_, rooms_.workers + worker * rooms_.worker_bytes);
    copy_queries(first, last, kv_head, room.q);
    compute(stretch == &parts_.chosen, first, last, kv_head, room);
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
      attend_tiles(attention_.table, head.positions, queries, begin,
                   {Choice::kPositions, attention_.group_share(kv_head)},
                   {d, n_group, n_tokens / kTileTokens}, room.work, room.lists);
    } else if (chooses) {
      attend_by_query(
          attention_.table, head.positions, queries, begin, n_tokens,
          [&](size_t h) { return attention_.share_of(kv_head * n_group + h); }, {d, n_group},
          room.lists);
    } else {
      const size_t together = tokens_together(n_group);
      for (size_t t = 0; t < n_tokens; ++t) room.seen[t] = {0, begin + t + 1};
      attend_in_panels(attention_.table, head.positions, queries, {room.seen, n_tokens},
                       {d, n_group, together, together}, room.work);
    }
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
  Parts parts_;
  Rooms rooms_;
};

troika_attention_code fail(troika_attention_error* error, troika_attention_code code,
                           const std::string& message) {
  if (error != nullptr) {
    error->code = code;
    std::strncpy(error->message, message.c_str(), sizeof(error->message) - 1);
    error->message[sizeof(error->message) - 1] = '\0';
  }
  return code;
}

troika_attention_code done(troika_attention_error* error) {
  return fail(error, TROIKA_ATTENTION_OK, "");
}

// A struct of a caller who knows less of it, or as much: what is missing is zero.
template <typename Struct>
bool read(const Struct* given, size_t least_bytes, Struct* result) {
  if (given == nullptr || given->size < least_bytes || given->size > sizeof(Struct)) return false;
  std::memset(static_cast<void*>(result), 0, sizeof(Struct));
  std::memcpy(static_cast<void*>(result), given, given->size);
  return true;
}

bool is_share(float share) { return share > 0.0f && share <= 1.0f; }

// What is wrong with the options; empty: nothing. Zeros become what they stand for.
std::string complete(troika_attention_options* o) {
  if (o->n_heads < 1 || o->n_kv_heads < 1 || o->n_heads % o->n_kv_heads != 0) {
    return fmt::format("n_heads {} must be a multiple of n_kv_heads {}, both at least 1.",
                       o->n_heads, o->n_kv_heads);
  }
  if (o->head_size < 1 || static_cast<size_t>(o->head_size) > kernels::kMaxHeadSize) {
    return fmt::format("head_size {} must be between 1 and {}.", o->head_size,
                       kernels::kMaxHeadSize);
  }
  if (!std::isfinite(o->scale) || !(o->soft_cap >= 0.0f) || std::isinf(o->soft_cap)) {
    return "scale and soft_cap must be finite, and soft_cap at least 0.";
  }
  const int mode = static_cast<int>(o->mode);
  if (mode < TROIKA_ATTENTION_FULL || mode > TROIKA_ATTENTION_QUERY) {
    return fmt::format("mode {} is none of TROIKA_ATTENTION_FULL, SPARSE and QUERY.", mode);
  }
  if (o->share == 0.0f) o->share = kUsualShare;
  if (o->from == 0) o->from = kUsualFrom;
  if (o->scale == 0.0f) o->scale = 1.0f / std::sqrt(static_cast<float>(o->head_size));
  if (!is_share(o->share)) return "share must be above 0 and at most 1; 0 means 0.2.";
  for (int32_t h = 0; o->head_shares != nullptr && h < o->n_heads; ++h) {
    if (!is_share(o->head_shares[h])) {
      return fmt::format("head_shares[{}] must be above 0 and at most 1.", h);
    }
  }
  if (o->from < static_cast<int32_t>(kLeastPositions) || o->from > kMostPositions ||
      o->from % static_cast<int32_t>(kTileTokens) != 0) {
    return fmt::format("from {} must be a multiple of {} and at least {}; 0 means {}.", o->from,
                       kTileTokens, kLeastPositions, kUsualFrom);
  }
  return "";
}

std::string problem_of_rows(const troika_attention& attention, const troika_attention_rows& rows,
                            const char* name) {
  const int type = static_cast<int>(rows.type);
  if (type < TROIKA_ATTENTION_F32 || type > TROIKA_ATTENTION_BF16) {
    return fmt::format("{}.type {} is none of TROIKA_ATTENTION_F32, F16 and BF16.", name, type);
  }
  const size_t least = attention.head_size() * element_bytes(rows.type);
  if (rows.row_bytes < least || rows.row_bytes > kMostRowBytes || rows.head_bytes > kMostRowBytes) {
    return fmt::format(
        "{}.row_bytes {} must be at least {}, the bytes of a head, and it and "
        "head_bytes no more than 2^40.",
        name, rows.row_bytes, least);
  }
  return "";
}

// What is wrong with the shape of a call; empty: nothing.
std::string problem_of(const troika_attention& attention, const troika_attention_call& call) {
  if (call.n_tokens < 1 || call.first_position < 0 ||
      call.n_tokens > kMostPositions - call.first_position) {
    return fmt::format(
        "n_tokens {} must be at least 1, first_position {} at least 0, and both "
        "together at most 2^27.",
        call.n_tokens, call.first_position);
  }
  if (call.n_workers < 1) return "n_workers must be at least 1.";
  for (const auto& [rows, name] :
       {std::pair(&call.q, "q"), std::pair(&call.k, "k"), std::pair(&call.v, "v")}) {
    if (std::string problem = problem_of_rows(attention, *rows, name); !problem.empty()) {
      return problem;
    }
  }
  if (call.out_row_bytes < attention.head_size() * sizeof(float) ||
      call.out_row_bytes > kMostRowBytes || call.out_head_bytes > kMostRowBytes ||
      call.out_row_bytes % sizeof(float) != 0 || call.out_head_bytes % sizeof(float) != 0) {
    return "out_row_bytes must hold a head of floats, and it and out_head_bytes be multiples of 4.";
  }
  return "";
}

constexpr size_t kLeastOptions = sizeof(troika_attention_options);
constexpr size_t kLeastCall = sizeof(troika_attention_call);

}  // namespace

// The functions of the header, whose linkage of C knows no namespace.
extern "C" {

troika_attention_code troika_attention_create(const troika_attention_options* options,
                                              troika_attention** attention,
                                              troika_attention_error* error) {
  if (attention == nullptr) return fail(error, TROIKA_ATTENTION_USAGE, "attention is null.");
  *attention = nullptr;
  troika_attention_options read_options;
  if (!read(options, kLeastOptions, &read_options)) {
    return fail(error, TROIKA_ATTENTION_USAGE,
                "options is null, or its size is not sizeof(troika_attention_options) of this "
                "library's header.");
  }
  if (const std::string problem = complete(&read_options); !problem.empty()) {
    return fail(error, TROIKA_ATTENTION_USAGE, problem);
  }
  try {
    auto made = std::make_unique<troika_attention>();
    made->table = troika::kernels::choose(troika::detect_cpu_features()).table;
    made->options = read_options;
    if (read_options.head_shares != nullptr) {
      made->head_shares.assign(read_options.head_shares,
                               read_options.head_shares + read_options.n_heads);
    }
    made->options.head_shares = nullptr;
    *attention = made.release();
    return done(error);
  } catch (const std::bad_alloc&) {
    return fail(error, TROIKA_ATTENTION_ERROR, "There is no memory left.");
  } catch (const std::exception& e) {
    return fail(error, TROIKA_ATTENTION_ERROR, e.what());
  }
}

void troika_attention_destroy(troika_attention* attention) { delete attention; }

size_t troika_attention_workspace(const troika_attention* attention,
                                  const troika_attention_call* call) {
  troika_attention_call read_call;
  if (attention == nullptr || !read(call, kLeastCall, &read_call)) return 0;
  if (!problem_of(*attention, read_call).empty()) return 0;
  return Rooms(*attention, read_call, nullptr).bytes + kLine;
}

troika_attention_code troika_attention_run(const troika_attention* attention,
                                           const troika_attention_call* call,
                                           troika_attention_error* error) {
  troika_attention_call read_call;
  if (attention == nullptr || !read(call, kLeastCall, &read_call)) {
    return fail(error, TROIKA_ATTENTION_USAGE,
                "attention or call is null, or the call's size is not "
                "sizeof(troika_attention_call) of this library's header.");
  }
  try {
    if (const std::string problem = problem_of(*attention, read_call); !problem.empty()) {
      return fail(error, TROIKA_ATTENTION_USAGE, problem);
    }
    if (read_call.q.data == nullptr || read_call.k.data == nullptr || read_call.v.data == nullptr ||
        read_call.out == nullptr) {
      return fail(error, TROIKA_ATTENTION_USAGE, "q, k, v and out must not be null.");
    }
    const size_t needed = Rooms(*attention, read_call, nullptr).bytes + kLine;
    if (read_call.workspace == nullptr || read_call.workspace_bytes < needed) {
      return fail(
          error, TROIKA_ATTENTION_TOO_SMALL,
          fmt::format("The workspace has {} bytes, and this call needs {}: ask "
                      "troika_attention_workspace.",
                      read_call.workspace == nullptr ? 0 : read_call.workspace_bytes, needed));
    }
    Pass(*attention, read_call).run();
    return done(error);
  } catch (const std::exception& e) {  // of a pool
    return fail(error, TROIKA_ATTENTION_ERROR, e.what());
  }
}

}  // extern "C"
}  // namespace troika::attention
