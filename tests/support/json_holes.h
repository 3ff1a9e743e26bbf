// Copies of a JSON text in which one thing is missing: a key of an object, or an element of a list.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace troika::test {

struct JsonHole {
  std::string where;  // names the place, with the indices of lists as *
  nlohmann::json rest;
};

// Returns the whole with holes in at most `n_alike` places that differ by indices of lists only.
inline std::vector<JsonHole> json_holes(const nlohmann::json& whole, int n_alike = 1) {
  using Pointer = nlohmann::json::json_pointer;
  std::vector<JsonHole> holes;
  std::map<std::string, int> n_seen;
  std::vector<std::pair<Pointer, std::string>> left = {{Pointer(), ""}};
  while (!left.empty()) {
    const auto [at, name] = left.back();
    left.pop_back();
    const nlohmann::json& part = whole[at];
    if (!part.is_structured()) continue;
    for (const auto& [key, value] : part.items()) {
      const std::string below = name + "/" + (part.is_array() ? "*" : key);
      if (++n_seen[below] > n_alike) continue;
      JsonHole hole{below, whole};
      nlohmann::json& rest = hole.rest[at];
      if (part.is_array()) {
        rest.erase(std::stoul(key));
      } else {
        rest.erase(key);
      }
      holes.push_back(std::move(hole));
      left.emplace_back(part.is_array() ? at / std::stoul(key) : at / key, below);
    }
  }
  return holes;
}

}  // namespace troika::test
