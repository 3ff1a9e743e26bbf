// The prompts that measurements of attention take: keys, values and queries of one head of keys,
// random or planted so that tiles keep a stated share by weight.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "attention/areas.h"
#include "attention/panel_attention.h"
#include "attention/tile_attention.h"

namespace troika::bench {

using namespace troika::attention;

inline constexpr size_t kChunk = 512;
inline constexpr size_t kTopics =
    8;  // the topics of a planted tile, each for as many of its tokens

struct Shape {
  size_t head_size, n_group;
};
inline constexpr Shape kShapes[] = {{64, 7},  {64, 6},  {64, 4},  {64, 3},  {64, 1},
                                    {128, 7}, {128, 6}, {128, 4}, {128, 3}, {128, 1}};

// A prompt's keys and values in half precision, as caches have them, and its queries.
struct Prompt {
  Shape shape;
  size_t n;
  std::vector<float> q, out;
  std::vector<std::byte> k, v;
  std::vector<uint32_t> slots;
  const std::byte* pages[2];

  Prompt(const kernels::Table& table, Shape shape, size_t n) : shape(shape), n(n) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    const size_t d = shape.head_size;
    q.resize(n * shape.n_group * d);
    for (float& value : q) value = normal(random);
    out.resize(q.size());
    slots.resize(n);
    for (size_t p = 0; p < n; ++p) slots[p] = static_cast<uint32_t>(p);
    const size_t row = tensor::row_bytes(tensor::Type::kF16, d);
    std::vector<float> values(d);
    for (std::vector<std::byte>* page : {&k, &v}) {
      page->resize(n * row);
      for (size_t p = 0; p < n; ++p) {
        for (float& value : values) value = normal(random);
        table.store_kv(tensor::Type::kF16, values.data(), page->data() + p * row, d);
      }
    }
    pages[0] = k.data();
    pages[1] = v.data();
  }
  // Makes tiles keep about this share by weight: some positions belong to a topic, and each eighth
  // of a tile's tokens looks for one topic. The positions beside those are kept too.
  void plant(const kernels::Table& table, double share) {
    constexpr float kNoise = 0.25f, kHeavy = 9.0f;
    constexpr double kWithNeighbours = 3.0;
    std::mt19937 random(2);
    std::normal_distribution<float> normal(0.0f, kNoise);
    const size_t d = shape.head_size;
    const double density = 1 - std::pow(1 - share, 1 / kWithNeighbours);
    std::bernoulli_distribution is_heavy(density);
    std::vector<float> key(d);
    const size_t row = tensor::row_bytes(tensor::Type::kF16, d);
    for (size_t p = 0; p < n; ++p) {
      for (float& value : key) value = normal(random);
      const size_t topic = random() % kTopics;
      if (is_heavy(random)) key[topic] += kHeavy;
      table.store_kv(tensor::Type::kF16, key.data(), k.data() + p * row, d);
    }
    for (size_t i = 0; i < q.size(); ++i) q[i] = normal(random);
    for (size_t t = 0; t < n; ++t) {
      const size_t topic = t % kTileTokens * kTopics / kTileTokens;
      for (size_t h = 0; h < shape.n_group; ++h) q[(t * shape.n_group + h) * d + topic] += kHeavy;
    }
  }
  // Returns the positions that the last of the tokens before `end` sees.
  Positions positions(size_t end) const {
    Positions positions;
    positions.k = {&pages[0], 31, tensor::row_bytes(tensor::Type::kF16, shape.head_size), 0,
                   tensor::Type::kF16};
    positions.v = positions.k;
    positions.v.pages = &pages[1];
    positions.past = std::span(slots).first(end);
    return positions;
  }
  Queries queries(size_t token) {
    const size_t stride = shape.n_group * shape.head_size;
    return {q.data() + token * stride,
            out.data() + token * stride,
            stride,
            shape.head_size,
            shape.n_group,
            0.125f};
  }
};

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Lets tokens first .. last of a prompt see everything before them.
inline void attend_to_all(const kernels::Table& table, Prompt& prompt, size_t first, size_t last,
                          std::byte* work) {
  const size_t together = tokens_together(prompt.shape.n_group);
  std::vector<kernels::SeenPositions> seen(together);
  for (size_t t = first; t < last; t += together) {
    const size_t n = std::min(together, last - t);
    for (size_t i = 0; i < n; ++i) seen[i] = {0, t + i + 1};
    attend_in_panels(table, prompt.positions(t + n), prompt.queries(t), {seen.data(), n},
                     {prompt.shape.head_size, prompt.shape.n_group, together, together}, work);
  }
}

// Reads numbers with commas between them.
inline std::vector<size_t> numbers(std::string text) {
  std::vector<size_t> result;
  for (size_t begin = 0; begin < text.size();) {
    const size_t comma = std::min(text.find(',', begin), text.size());
    result.push_back(std::strtoul(text.substr(begin, comma - begin).c_str(), nullptr, 10));
    begin = comma + 1;
  }
  return result;
}

}  // namespace troika::bench
