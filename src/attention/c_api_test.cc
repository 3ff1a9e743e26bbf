// Calls attention alone, as another engine would (S9).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "attention/attention_test_support.h"
#include "tensor/half.h"
#include "tests/support/allocation_counter.h"
#include "troika/attention.h"

namespace troika::attention {
namespace {

constexpr size_t kFirstPosition = 768;
constexpr int32_t kCallTokens = 200;  // makes three whole tiles, and some tokens of a fourth

// Holds the data of a call: heads of keys side by side, each with its group of queries.
struct CallData {
  size_t n_kv, n_group, head_size;
  std::vector<TestHead> heads;
  std::vector<std::byte> q, k, v;
  std::vector<uint32_t> slots;
  std::vector<float> out;
  std::vector<std::byte> workspace;
  troika_attention_options options = {};
  troika_attention_call call = {};

  CallData(size_t n_kv, size_t n_group, size_t head_size)
      : n_kv(n_kv), n_group(n_group), head_size(head_size) {
    for (size_t h = 0; h < n_kv; ++h) {
      heads.emplace_back(kFirstPosition + kCallTokens, kCallTokens, head_size, n_group, 50 + h);
    }
    options.size = sizeof(options);
    options.n_heads = static_cast<int32_t>(n_kv * n_group);
    options.n_kv_heads = static_cast<int32_t>(n_kv);
    options.head_size = static_cast<int32_t>(head_size);
    options.scale = heads[0].scale;
    options.mode = TROIKA_ATTENTION_SPARSE;
    options.from = 512;
    call.size = sizeof(call);
    call.n_tokens = kCallTokens;
    call.first_position = kFirstPosition;
    call.n_workers = 1;
    set_types(TROIKA_ATTENTION_F32, 0, true);
  }

  static void put(troika_attention_type type, float value, std::byte* at) {
    if (type == TROIKA_ATTENTION_F32) {
      std::memcpy(at, &value, sizeof(value));
      return;
    }
    const uint16_t half =
        type == TROIKA_ATTENTION_F16 ? tensor::f32_to_f16(value) : tensor::f32_to_bf16(value);
    std::memcpy(at, &half, sizeof(half));
  }

  // Describes rows of heads. If `rows_first`, the heads stand side by side within a row, with `gap`
  // bytes behind each row; else the rows of each head stand together.
  troika_attention_rows rows_of(troika_attention_type type, size_t gap, bool rows_first,
                                size_t n_rows, size_t n_heads, std::vector<std::byte>* data,
                                const std::function<float(size_t row, size_t head, size_t i)>& at) {
    const size_t element = type == TROIKA_ATTENTION_F32 ? 4 : 2, head = head_size * element;
    troika_attention_rows rows = {};
    rows.type = type;
    rows.row_bytes = rows_first ? n_heads * head + gap : head + gap;
    rows.head_bytes = rows_first ? head : n_rows * rows.row_bytes;
    data->assign(n_heads * n_rows * (head + gap) + gap, std::byte{0x7f});
    for (size_t r = 0; r < n_rows; ++r) {
      for (size_t h = 0; h < n_heads; ++h) {
        for (size_t i = 0; i < head_size; ++i) {
          put(type, at(r, h, i),
              data->data() + r * rows.row_bytes + h * rows.head_bytes + i * element);
        }
      }
    }
    rows.data = data->data();
    return rows;
  }

  // Makes all inputs of this type. With slots, positions stand in reverse order.
  void set_types(troika_attention_type type, size_t gap, bool rows_first, bool has_slots = false) {
    const size_t n = kFirstPosition + kCallTokens;
    slots.resize(n);
    for (size_t p = 0; p < n; ++p) slots[p] = static_cast<uint32_t>(n - 1 - p);
    call.slots = has_slots ? slots.data() : nullptr;
    const auto position = [=](size_t row) { return has_slots ? n - 1 - row : row; };
    call.q = rows_of(type, gap, rows_first, kCallTokens, n_kv * n_group, &q,
                     [&](size_t row, size_t head, size_t i) {
                       return heads[head / n_group].query(row, head % n_group)[i];
                     });
    call.k = rows_of(type, gap, rows_first, n, n_kv, &k, [&](size_t row, size_t head, size_t i) {
      return heads[head].keys[position(row) * head_size + i];
    });
    call.v = rows_of(type, gap, rows_first, n, n_kv, &v, [&](size_t row, size_t head, size_t i) {
      return heads[head].values[position(row) * head_size + i];
    });
  }

  // Counts what `new` allocates in the run itself.
  int64_t n_allocations = 0;

  troika_attention_code run(troika_attention_error* error = nullptr) {
    troika_attention* attention = nullptr;
    const troika_attention_code made = troika_attention_create(&options, &attention, error);
    if (made != TROIKA_ATTENTION_OK) return made;
    const size_t row = n_kv * n_group * head_size + 3;
    out.assign(kCallTokens * row, -7.0f);
    call.out = out.data();
    call.out_row_bytes = row * sizeof(float);
    call.out_head_bytes = head_size * sizeof(float);
    workspace.resize(troika_attention_workspace(attention, &call));
    call.workspace = workspace.data();
    call.workspace_bytes = workspace.size();
    const test::AllocationCounter counter;
    const troika_attention_code code = troika_attention_run(attention, &call, error);
    n_allocations = counter.n_allocations();
    troika_attention_destroy(attention);
    return code;
  }
  std::vector<float> result() {
    troika_attention_error error;
    EXPECT_EQ(run(&error), TROIKA_ATTENTION_OK) << error.message;
    return out;
  }
};

TEST(AttentionAlone, S9ARunAllocatesNothing) {
  if (!test::AllocationCounter::is_on()) GTEST_SKIP() << "a sanitizer allocates itself";
  CallData data(2, 3, 64);
  for (const auto mode : {TROIKA_ATTENTION_FULL, TROIKA_ATTENTION_SPARSE, TROIKA_ATTENTION_QUERY}) {
    data.options.mode = mode;
    data.result();
    EXPECT_EQ(data.n_allocations, 0) << mode;
  }
}

TEST(AttentionAlone, S9AllPositionsAreFullAttentionToTheBit) {
  for (const size_t n_group : {1, 3}) {
    CallData data(2, n_group, 64);
    data.options.mode = TROIKA_ATTENTION_FULL;
    const std::vector<float> full = data.result();
    data.options.mode = TROIKA_ATTENTION_SPARSE;
    data.options.share = 1.0f;
    EXPECT_EQ(data.result(), full);
    data.options.share = 0.1f;
    EXPECT_NE(data.result(), full);
    for (size_t h = 0; h < 2 * n_group; ++h) {
      const std::vector<double> plain =
          data.heads[h / n_group].plain(kCallTokens - 1, h % n_group, [&] {
            std::vector<uint32_t> all(kFirstPosition + kCallTokens);
            for (size_t p = 0; p < all.size(); ++p) all[p] = static_cast<uint32_t>(p);
            return all;
          }());
      const size_t row = 2 * n_group * 64 + 3;
      EXPECT_LT(largest_difference(full, (kCallTokens - 1) * row + h * 64, plain), 0.03);
    }
    // The call leaves what lies between the rows of the result alone.
    EXPECT_EQ(full[2 * n_group * 64], -7.0f);
  }
}

TEST(AttentionAlone, S9EachQueryChoosesForItself) {
  CallData data(1, 2, 64);
  data.options.mode = TROIKA_ATTENTION_QUERY;
  data.options.share = 1.0f;
  const std::vector<float> all = data.result();
  data.options.share = 0.2f;
  EXPECT_NE(data.result(), all);
  const float shares[] = {1.0f, 0.2f};
  data.options.head_shares = shares;
  const std::vector<float> mixed = data.result();
  EXPECT_TRUE(std::equal(all.begin(), all.begin() + 64, mixed.begin()));
  EXPECT_NE(mixed, all);
}

// By weight, what a token sees depends on nothing behind it; by share it does.
TEST(AttentionAlone, S9ByWeightNoTokenSeesWhatALaterOneChose) {
  constexpr size_t kRow = 2 * 64 + 3,
                   kChanged = 40;  // a token of the first tile, and all behind it
  const auto differs = [&](double above) {
    CallData data(1, 2, 64), other(1, 2, 64);
    data.options.above = other.options.above = above;
    data.options.share = other.options.share = 0.05f;
    for (size_t i = kChanged * 2 * 64; i < other.heads[0].q.size(); ++i) other.heads[0].q[i] *= -3;
    other.set_types(TROIKA_ATTENTION_F32, 0, true);
    const std::vector<float> usual = data.result(), changed = other.result();
    EXPECT_FALSE(std::equal(usual.begin() + kChanged * kRow, usual.end(),
                            changed.begin() + kChanged * kRow));
    return !std::equal(usual.begin(), usual.begin() + kChanged * kRow, changed.begin());
  };
  EXPECT_FALSE(differs(2.0));
  EXPECT_TRUE(differs(0.0));
}

TEST(AttentionAlone, S9ByWeightHeadsWithAShareOfOneKeepEverything) {
  CallData data(2, 1, 64);
  data.options.mode = TROIKA_ATTENTION_FULL;
  const std::vector<float> full = data.result();
  data.options.mode = TROIKA_ATTENTION_SPARSE;
  data.options.above = 20.0;
  const std::vector<float> sparse = data.result();
  EXPECT_NE(sparse, full);
  const float shares[] = {1.0f, 0.2f};
  data.options.head_shares = shares;
  const std::vector<float> mixed = data.result();
  constexpr size_t kRow = 2 * 64 + 3;
  for (size_t t = 0; t < static_cast<size_t>(kCallTokens); ++t) {
    const auto from = static_cast<ptrdiff_t>(t * kRow);
    ASSERT_TRUE(std::equal(full.begin() + from, full.begin() + from + 64, mixed.begin() + from));
    ASSERT_TRUE(std::equal(sparse.begin() + from + 64, sparse.begin() + from + 128,
                           mixed.begin() + from + 64));
  }
}

// Heads that share keys share a list, which one of them makes hold everything.
TEST(AttentionAlone, S9ByWeightAHeadThatKeepsEverythingSharesItsList) {
  CallData data(1, 2, 64);
  data.options.mode = TROIKA_ATTENTION_FULL;
  const std::vector<float> full = data.result();
  data.options.mode = TROIKA_ATTENTION_SPARSE;
  data.options.above = 20.0;
  EXPECT_NE(data.result(), full);
  const float shares[] = {0.2f, 1.0f};
  data.options.head_shares = shares;
  EXPECT_EQ(data.result(), full);
}

// Callers that were built with a header whose options end before `above`.
TEST(AttentionAlone, S9OptionsOfTheFirstVersionChooseByShare) {
  CallData data(1, 2, 64);
  const std::vector<float> wanted = data.result();
  data.options.size = offsetof(troika_attention_options, above);
  data.options.above = 1000.0;
  EXPECT_EQ(data.result(), wanted);
}

TEST(AttentionAlone, S9StridesAndSlotsChangeNoBit) {
  for (const auto type : {TROIKA_ATTENTION_F32, TROIKA_ATTENTION_F16, TROIKA_ATTENTION_BF16}) {
    CallData data(2, 3, 80);
    data.set_types(type, 0, true);
    const std::vector<float> wanted = data.result();
    for (const bool rows_first : {true, false}) {
      for (const bool has_slots : {true, false}) {
        data.set_types(type, 12, rows_first, has_slots);
        EXPECT_EQ(data.result(), wanted) << type << rows_first << has_slots;
      }
    }
  }
}

TEST(AttentionAlone, S9TypesComeNearToFloats) {
  CallData data(1, 2, 64);
  data.options.mode = TROIKA_ATTENTION_FULL;
  const std::vector<float> floats = data.result();
  for (const auto type : {TROIKA_ATTENTION_F16, TROIKA_ATTENTION_BF16}) {
    data.set_types(type, 0, true);
    const std::vector<float> halves = data.result();
    const double largest =
        largest_difference(halves, 0, std::vector<double>(floats.begin(), floats.end()));
    // Full attention multiplies bfloat16 in any case, so only other types change its result.
    EXPECT_EQ(largest > 0.0, type == TROIKA_ATTENTION_F16);
    EXPECT_LT(largest, 0.05) << type;
  }
}

void backwards(void* user, int64_t n_items, void (*item)(void*, int64_t, int32_t), void* arg) {
  ++*static_cast<int*>(user);
  for (int64_t i = n_items; i-- > 0;) item(arg, i, static_cast<int32_t>(i % 3));
}

TEST(AttentionAlone, S9WhatAPoolThrowsIsAnError) {
  CallData data(1, 1, 64);
  troika_attention_error error;
  data.call.pool = [](void*, int64_t, void (*)(void*, int64_t, int32_t), void*) { throw 7; };
  EXPECT_EQ(data.run(&error), TROIKA_ATTENTION_ERROR);
  EXPECT_NE(std::string(error.message).find("pool"), std::string::npos);
}

void in_threads(void*, int64_t n_items, void (*item)(void*, int64_t, int32_t), void* arg) {
  std::vector<std::thread> threads;
  for (int32_t worker = 0; worker < 3; ++worker) {
    threads.emplace_back([=] {
      for (int64_t i = worker; i < n_items; i += 3) item(arg, i, worker);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(AttentionAlone, S9WorkersAndTheirOrderChangeNoBit) {
  for (const auto mode : {TROIKA_ATTENTION_SPARSE, TROIKA_ATTENTION_QUERY}) {
    CallData data(2, 2, 64);
    data.options.mode = mode;
    const std::vector<float> wanted = data.result();
    int n_calls = 0;
    data.call.n_workers = 3;
    data.call.pool = backwards;
    data.call.pool_user = &n_calls;
    EXPECT_EQ(data.result(), wanted);
    EXPECT_GT(n_calls, 0);
    data.call.pool = in_threads;
    EXPECT_EQ(data.result(), wanted);
  }
}

// Parts of a prompt have whole tiles, but for the last one.
TEST(AttentionAlone, S9PartsOfAPromptChangeNoBit) {
  CallData data(1, 2, 64);
  const std::vector<float> whole = data.result();
  const size_t row = 2 * 64 + 3;
  for (const int32_t first : {64, 128}) {
    CallData part(1, 2, 64);
    part.call.first_position += first;
    part.call.n_tokens -= first;
    part.call.q.data = part.q.data() + static_cast<size_t>(first) * part.call.q.row_bytes;
    const std::vector<float> later = part.result();
    EXPECT_TRUE(std::equal(whole.begin() + static_cast<ptrdiff_t>(first * row), whole.end(),
                           later.begin()));
  }
}

// Writes what a C caller may write, and no enumeration of C++ may hold.
template <typename Enum>
void put_number(int number, Enum* field) {
  static_assert(sizeof(Enum) == sizeof(number));
  std::memcpy(field, &number, sizeof(number));
}

TEST(AttentionAlone, S9BadArgumentsAreCodesAndSentences) {
  const auto refusal = [](const std::function<void(CallData&)>& damage,
                          troika_attention_code wanted = TROIKA_ATTENTION_USAGE) {
    CallData data(1, 1, 64);
    damage(data);
    troika_attention_error error;
    EXPECT_EQ(data.run(&error), wanted) << error.message;
    EXPECT_EQ(error.code, wanted);
    return std::string(error.message);
  };
  const auto names = [&](const char* what, const std::function<void(CallData&)>& damage) {
    EXPECT_NE(refusal(damage).find(what), std::string::npos) << what;
  };
  names("size", [](CallData& d) { d.options.size = 8; });
  names("size", [](CallData& d) { d.call.size = sizeof(d.call) + 8; });
  names("n_kv_heads", [](CallData& d) { d.options.n_kv_heads = 0; });
  names("head_size", [](CallData& d) { d.options.head_size = 100000; });
  names("mode", [](CallData& d) { put_number(9, &d.options.mode); });
  names("share", [](CallData& d) { d.options.share = 1.5f; });
  names("share", [](CallData& d) { d.options.share = -1.0f; });
  names("from", [](CallData& d) { d.options.from = 500; });
  for (const double above : {-1.0, double{std::nanf("")}, HUGE_VAL}) {
    names("above", [=](CallData& d) { d.options.above = above; });
  }
  names("above is for", [](CallData& d) {
    d.options.mode = TROIKA_ATTENTION_QUERY;
    d.options.above = 2.5;
  });
  // Sizes whose products with positions would exceed 64 bits.
  names("n_heads", [](CallData& d) { d.options.n_heads = d.options.n_kv_heads = 1 << 29; });
  names("n_workers", [](CallData& d) { d.call.n_workers = INT32_MAX; });
  names("slots[5]", [](CallData& d) {
    d.slots[5] = uint32_t{1} << 31;
    d.call.slots = d.slots.data();
  });
  names("scale", [](CallData& d) { d.options.scale = std::nanf(""); });
  names("n_tokens", [](CallData& d) { d.call.n_tokens = 0; });
  names("n_tokens", [](CallData& d) { d.call.first_position = INT32_MAX; });
  names("n_workers", [](CallData& d) { d.call.n_workers = 0; });
  names("k.row_bytes", [](CallData& d) { d.call.k.row_bytes = 2; });
  names("v.type", [](CallData& d) { put_number(7, &d.call.v.type); });
  names("null", [](CallData& d) { d.call.q.data = nullptr; });
  troika_attention_error error;
  EXPECT_EQ(troika_attention_create(nullptr, nullptr, &error), TROIKA_ATTENTION_USAGE);
  EXPECT_EQ(troika_attention_run(nullptr, nullptr, nullptr), TROIKA_ATTENTION_USAGE);
  EXPECT_EQ(troika_attention_workspace(nullptr, nullptr), 0u);
  troika_attention_destroy(nullptr);

  CallData data(1, 1, 64);
  data.result();
  troika_attention* attention = nullptr;
  ASSERT_EQ(troika_attention_create(&data.options, &attention, &error), TROIKA_ATTENTION_OK);
  data.call.workspace_bytes = 100;
  EXPECT_EQ(troika_attention_run(attention, &data.call, &error), TROIKA_ATTENTION_TOO_SMALL);
  EXPECT_NE(std::string(error.message).find("troika_attention_workspace"), std::string::npos);
  troika_attention_destroy(attention);
}

// Whoever meets a limit is told which one it is.
TEST(AttentionAlone, S9LimitsAreNamed) {
  const auto refusal = [](const std::function<void(CallData&)>& damage) {
    CallData data(1, 1, 64);
    damage(data);
    troika_attention_error error;
    EXPECT_EQ(data.run(&error), TROIKA_ATTENTION_USAGE);
    return std::string(error.message);
  };
  EXPECT_EQ(refusal([](CallData& d) { d.options.from = (1 << 27) + 64; }),
            "from 134217792 must be a multiple of 64, at least 512 and at most 134217728; 0 means "
            "1024.");
  constexpr size_t kLongRow = (size_t{1} << 32) + 4, kFarHead = size_t{1} << 41;
  std::vector<std::string> messages = {
      refusal([](CallData& d) { d.call.k.row_bytes = kLongRow; }),
      refusal([](CallData& d) { d.call.k.head_bytes = kFarHead; })};
  CallData data(1, 1, 64);
  data.result();
  troika_attention* attention = nullptr;
  troika_attention_error error;
  ASSERT_EQ(troika_attention_create(&data.options, &attention, &error), TROIKA_ATTENTION_OK);
  for (const auto& [row, head] :
       {std::pair(kLongRow, size_t{256}), std::pair(size_t{256}, kFarHead)}) {
    data.call.out_row_bytes = row;
    data.call.out_head_bytes = head;
    EXPECT_EQ(troika_attention_run(attention, &data.call, &error), TROIKA_ATTENTION_USAGE);
    messages.emplace_back(error.message);
  }
  troika_attention_destroy(attention);
  for (const std::string& message : messages) {
    EXPECT_NE(message.find("at most 2^32"), std::string::npos) << message;
    EXPECT_NE(message.find("at most 2^40"), std::string::npos) << message;
  }
}

}  // namespace
}  // namespace troika::attention
