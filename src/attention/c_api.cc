// The C API of attention alone (S9): it checks what a caller hands over, and turns errors into
// codes and sentences.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "attention/c_pass.h"
#include "attention/choose/estimate.h"
#include "kernels/choose.h"
#include "troika/attention.h"

namespace troika::attention {
namespace {

constexpr int32_t kUsualFrom = 1024;
constexpr float kUsualShare = 0.2f;
// These limits let no offset of a row, slot by row and head by head, exceed 64 bits.
constexpr size_t kMostRowBytes = size_t{1} << 32, kMostHeadBytes = size_t{1} << 40;
constexpr int32_t kMostPositions = 1 << 27;
constexpr int32_t kMostHeads = 1 << 16, kMostWorkers = 1 << 16;
// A view of keys has all slots in one page.
constexpr uint32_t kMostSlot = (uint32_t{1} << 31) - 1;

size_t element_bytes(troika_attention_type type) { return type == TROIKA_ATTENTION_F32 ? 4 : 2; }

troika_attention_code fail(troika_attention_error* error, troika_attention_code code,
                           std::string_view message) {
  if (error != nullptr) {
    error->code = code;
    error->message[message.copy(error->message, sizeof(error->message) - 1)] = '\0';
  }
  return code;
}

troika_attention_code done(troika_attention_error* error) {
  return fail(error, TROIKA_ATTENTION_OK, "");
}

// Reads a struct from a caller whose version of it may be shorter: missing fields become zero.
// Returns false where it is too short.
template <typename Struct>
bool read(const Struct* given, size_t least_bytes, Struct* result) {
  if (given == nullptr || given->size < least_bytes || given->size > sizeof(Struct)) return false;
  if (given->size % alignof(Struct) != 0) return false;  // ends within a field
  std::memset(static_cast<void*>(result), 0, sizeof(Struct));
  std::memcpy(static_cast<void*>(result), given, given->size);
  return true;
}

// Returns the number in a field that a C caller may have filled with any, which C++ may not read as
// an enumeration.
template <typename Enum>
int number_in(const Enum& field) {
  std::underlying_type_t<Enum> number;
  std::memcpy(&number, &field, sizeof(number));
  return static_cast<int>(number);
}

bool is_share(float share) { return share > 0.0f && share <= 1.0f; }

// Returns what is wrong with the options; empty: nothing. Replaces zeros by what they stand for.
std::string complete(troika_attention_options* o) {
  if (o->n_heads < 1 || o->n_heads > kMostHeads || o->n_kv_heads < 1 ||
      o->n_heads % o->n_kv_heads != 0) {
    return fmt::format(
        "n_heads {} must be a multiple of n_kv_heads {}, both at least 1 and at most {}.",
        o->n_heads, o->n_kv_heads, kMostHeads);
  }
  if (o->head_size < 1 || static_cast<size_t>(o->head_size) > kernels::kMaxHeadSize) {
    return fmt::format("head_size {} must be between 1 and {}.", o->head_size,
                       kernels::kMaxHeadSize);
  }
  if (!std::isfinite(o->scale) || !(o->soft_cap >= 0.0f) || std::isinf(o->soft_cap)) {
    return "scale and soft_cap must be finite, and soft_cap at least 0.";
  }
  const int mode = number_in(o->mode);
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
  if (!(o->above >= 0.0) || std::isinf(o->above)) {
    return "above must be finite and at least 0; 0 means that share decides.";
  }
  if (o->above > 0.0 && o->mode != TROIKA_ATTENTION_SPARSE) {
    return "above is for TROIKA_ATTENTION_SPARSE; in other modes it must be 0.";
  }
  if (o->from < static_cast<int32_t>(kLeastPositions) || o->from > kMostPositions ||
      o->from % static_cast<int32_t>(kTileTokens) != 0) {
    return fmt::format("from {} must be a multiple of {}, at least {} and at most {}; 0 means {}.",
                       o->from, kTileTokens, kLeastPositions, kMostPositions, kUsualFrom);
  }
  return "";
}

std::string problem_of_rows(const troika_attention& attention, const troika_attention_rows& rows,
                            const char* name) {
  const int type = number_in(rows.type);
  if (type < TROIKA_ATTENTION_F32 || type > TROIKA_ATTENTION_BF16) {
    return fmt::format("{}.type {} is none of TROIKA_ATTENTION_F32, F16 and BF16.", name, type);
  }
  const size_t least = attention.head_size() * element_bytes(rows.type);
  if (rows.row_bytes < least || rows.row_bytes > kMostRowBytes ||
      rows.head_bytes > kMostHeadBytes) {
    return fmt::format(
        "{0}.row_bytes {1} must be at least {2}, the bytes of a head, and at most 2^32, and "
        "{0}.head_bytes {3} at most 2^40.",
        name, rows.row_bytes, least, rows.head_bytes);
  }
  return "";
}

// Returns what is wrong with the shape of a call; empty: nothing.
std::string problem_of(const troika_attention& attention, const troika_attention_call& call) {
  if (call.n_tokens < 1 || call.first_position < 0 ||
      call.n_tokens > kMostPositions - call.first_position) {
    return fmt::format(
        "n_tokens {} must be at least 1, first_position {} at least 0, and both "
        "together at most 2^27.",
        call.n_tokens, call.first_position);
  }
  if (call.n_workers < 1 || call.n_workers > kMostWorkers) {
    return fmt::format("n_workers {} must be at least 1 and at most {}.", call.n_workers,
                       kMostWorkers);
  }
  for (const auto& [rows, name] :
       {std::pair(&call.q, "q"), std::pair(&call.k, "k"), std::pair(&call.v, "v")}) {
    if (std::string problem = problem_of_rows(attention, *rows, name); !problem.empty()) {
      return problem;
    }
  }
  if (call.out_row_bytes < attention.head_size() * sizeof(float) ||
      call.out_row_bytes > kMostRowBytes || call.out_head_bytes > kMostHeadBytes ||
      call.out_row_bytes % sizeof(float) != 0 || call.out_head_bytes % sizeof(float) != 0) {
    return fmt::format(
        "out_row_bytes {} must hold a head of floats and be at most 2^32, out_head_bytes {} at "
        "most 2^40, and both multiples of 4.",
        call.out_row_bytes, call.out_head_bytes);
  }
  return "";
}

// Returns what is wrong with where the data of a call is; empty: nothing.
std::string problem_of_data(const troika_attention_call& call) {
  if (call.q.data == nullptr || call.k.data == nullptr || call.v.data == nullptr ||
      call.out == nullptr) {
    return "q, k, v and out must not be null.";
  }
  const int32_t n = call.first_position + call.n_tokens;
  for (int32_t p = 0; call.slots != nullptr && p < n; ++p) {
    if (call.slots[p] > kMostSlot) {
      return fmt::format("slots[{}] {} must be below 2^31.", p, call.slots[p]);
    }
  }
  return "";
}

// Options end with `from` in the first version of the struct.
constexpr size_t kLeastOptions = offsetof(troika_attention_options, above);
constexpr size_t kLeastCall = sizeof(troika_attention_call);

}  // namespace

// These functions of the header have C linkage, which knows no namespace.
extern "C" {

troika_attention_code troika_attention_create(const troika_attention_options* options,
                                              troika_attention** attention,
                                              troika_attention_error* error) {
  if (attention == nullptr) return fail(error, TROIKA_ATTENTION_USAGE, "attention is null.");
  *attention = nullptr;
  troika_attention_options read_options;
  if (!read(options, kLeastOptions, &read_options)) {
    return fail(error, TROIKA_ATTENTION_USAGE,
                "options is null, or its size is not sizeof(troika_attention_options) of a header "
                "that this library knows.");
  }
  try {
    if (const std::string problem = complete(&read_options); !problem.empty()) {
      return fail(error, TROIKA_ATTENTION_USAGE, problem);
    }
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
  try {
    return problem_of(*attention, read_call).empty() ? workspace_bytes(*attention, read_call) : 0;
  } catch (const std::exception&) {  // there was no memory for the sentence of a refusal
    return 0;
  }
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
    if (const std::string problem = problem_of_data(read_call); !problem.empty()) {
      return fail(error, TROIKA_ATTENTION_USAGE, problem);
    }
    const size_t needed = workspace_bytes(*attention, read_call);
    if (read_call.workspace == nullptr || read_call.workspace_bytes < needed) {
      return fail(
          error, TROIKA_ATTENTION_TOO_SMALL,
          fmt::format("The workspace has {} bytes, and this call needs {}: ask "
                      "troika_attention_workspace.",
                      read_call.workspace == nullptr ? 0 : read_call.workspace_bytes, needed));
    }
    run_pass(*attention, read_call);
    return done(error);
  } catch (const std::exception& e) {
    return fail(error, TROIKA_ATTENTION_ERROR, e.what());
  } catch (...) {  // the caller's pool may throw anything
    return fail(error, TROIKA_ATTENTION_ERROR, "The pool of the call threw.");
  }
}

}  // extern "C"
}  // namespace troika::attention
