// Tells expressions that accept some text from those that accept none. Only intersections and
// complements may accept none without being kNone.
#include <unordered_set>
#include <utility>

#include "grammar/pool.h"

namespace troika::grammar {
namespace {

// So many expressions are looked at before anything is tried that may spare looking at the rest.
constexpr size_t kFew = 64;
constexpr size_t kMostForExample = 4096;

}  // namespace

// Returns kNone for an expression that accepts no text, and other expressions unchanged.
Expr Pool::alive(Expr e) { return !is_open(e) || has_text(e) ? e : kNone; }

// Says whether an expression has a text without looking at its steps.
bool Pool::surely_has_text(Expr e) const {
  return nodes_[e].is_alive == 1 || nullable(e) || (e != kNone && !is_open(e));
}

bool Pool::has_text(Expr start) {
  if (nodes_[start].is_alive >= 0) return nodes_[start].is_alive > 0;
  const std::optional<bool> soon = search_text(start, kFew);
  if (soon) return *soon;
  if (is_empty_by_two(start)) {
    nodes_[start].is_alive = 0;
    return false;
  }
  if (has_example(start)) return true;
  return *search_text(start, SIZE_MAX);
}

// Looks for steps that lead to an expression which surely has a text. If there are some, all
// expressions from which such steps are known are noted as alive; if not, all that it saw as dead.
// It ends at the first such step, because each further one may make expressions nobody asks for.
// Returns nothing if it has seen `most` expressions without knowing.
std::optional<bool> Pool::search_text(Expr start, size_t most) {
  if (surely_has_text(start)) {
    nodes_[start].is_alive = 1;
    return true;
  }
  struct Seen {
    Expr e;
    int last_edge;  // the last edge found that leads here; -1: none
  };
  struct Edge {
    size_t from;
    int before;  // the edge to the same expression that was found before
  };
  std::vector<Seen> seen = {{start, -1}};
  std::vector<Edge> edges;
  std::unordered_map<Expr, size_t> places = {{start, 0}};
  std::vector<size_t> open = {0};
  const auto spread_life = [&](size_t from) {
    std::vector<size_t> alive = {from};
    while (!alive.empty()) {
      const Seen one = seen[alive.back()];
      alive.pop_back();
      nodes_[one.e].is_alive = 1;
      for (int i = one.last_edge; i >= 0; i = edges[static_cast<size_t>(i)].before) {
        const size_t before = edges[static_cast<size_t>(i)].from;
        if (nodes_[seen[before].e].is_alive != 1) alive.push_back(before);
      }
    }
  };
  while (!open.empty()) {
    if (seen.size() > most) return std::nullopt;
    const size_t at = open.back();
    open.pop_back();
    const Expr e = seen[at].e;
    count_step();
    const std::span<const uint8_t> bytes = representatives(e);
    const std::string all_bytes(bytes.begin(), bytes.end());
    for (const char c : all_bytes) {
      const Expr next = open_step(e, static_cast<uint8_t>(c));
      if (next == kNone || nodes_[next].is_alive == 0) continue;
      const auto [place, is_new] = places.emplace(next, seen.size());
      if (is_new) seen.push_back({next, -1});
      edges.push_back(
          {at, std::exchange(seen[place->second].last_edge, static_cast<int>(edges.size()))});
      if (surely_has_text(next)) {
        spread_life(place->second);
        return true;
      }
      if (is_new) open.push_back(place->second);
    }
  }
  for (const Seen& s : seen) nodes_[s.e].is_alive = 0;
  return false;
}

// Says whether two parts of an intersection alone accept no text together, of which one is a
// complement. Such pairs have few states, where all parts together may have ten thousands. Where
// it returns false, the intersection may be empty all the same.
bool Pool::is_empty_by_two(Expr e) {
  if (nodes_[e].kind != Kind::kAll || nodes_[e].b <= 2) return false;
  const std::span<const Expr> of = parts(e);
  const std::vector<Expr> all(of.begin(), of.end());
  for (const Expr one : all) {
    if (nodes_[one].kind == Kind::kNot) continue;
    for (const Expr other : all) {
      if (nodes_[other].kind != Kind::kNot) continue;
      const Expr both = raw_all({one, other});
      if (both == kNone || (is_open(both) && !has_text(both))) return true;
    }
  }
  return false;
}

// Takes a shortest text of those parts of an intersection that are no complements, and says whether
// the intersection accepts it. If so, the intersection is noted as alive.
bool Pool::has_example(Expr e) {
  if (nodes_[e].kind != Kind::kAll) return false;
  std::vector<Expr> list;
  for (const Expr part : parts(e)) {
    if (nodes_[part].kind != Kind::kNot) list.push_back(part);
  }
  if (list.empty() || list.size() == nodes_[e].b) return false;
  Expr at = e;
  for (const char byte : example_of(all(list))) {
    at = is_open(at) ? open_step(at, static_cast<uint8_t>(byte))
                     : step(at, static_cast<uint8_t>(byte));
  }
  if (at == kNone || !surely_has_text(at)) return false;
  nodes_[e].is_alive = 1;
  return true;
}

// Returns a shortest text that an expression accepts; "" if finding it takes long.
std::string Pool::example_of(Expr start) {
  struct Seen {
    Expr e;
    size_t from;
    char byte;
  };
  std::vector<Seen> seen = {{start, 0, '\0'}};
  std::unordered_set<Expr> known = {start};
  for (size_t at = 0; at < seen.size() && seen.size() < kMostForExample; ++at) {
    const Expr e = seen[at].e;
    count_step();
    if (nullable(e)) {
      std::string text;
      for (size_t i = at; i != 0; i = seen[i].from) text += seen[i].byte;
      return {text.rbegin(), text.rend()};
    }
    const std::span<const uint8_t> bytes = representatives(e);
    const std::string all_bytes(bytes.begin(), bytes.end());
    for (const char c : all_bytes) {
      const Expr next = step(e, static_cast<uint8_t>(c));
      if (next != kNone && known.insert(next).second) seen.push_back({next, at, c});
    }
  }
  return "";
}

}  // namespace troika::grammar
