#include "text/stop_finder.h"

#include <algorithm>
#include <utility>

namespace troika::text {

StopFinder::StopFinder(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
  std::sort(stops_.begin(), stops_.end());
  stops_.erase(std::unique(stops_.begin(), stops_.end()), stops_.end());
  add_nodes();
  connect_nodes();
}

void StopFinder::add_nodes() {
  nodes_.emplace_back();
  // Has the range of stop strings that begin with each node.
  std::vector<std::pair<size_t, size_t>> ranges = {{0, stops_.size()}};
  for (size_t i = 0; i < nodes_.size(); ++i) {
    auto [at, end] = ranges[i];
    const uint32_t n_bytes = nodes_[i].n_bytes;
    nodes_[i].first_child = static_cast<uint32_t>(nodes_.size());
    // The string that is the node itself stands before those that are longer.
    if (at < end && stops_[at].size() == n_bytes) nodes_[i].found = static_cast<uint32_t>(at++);
    while (at < end) {
      const size_t begin = at;
      const char byte = stops_[begin][n_bytes];
      while (at < end && stops_[at][n_bytes] == byte) ++at;
      Node& made = nodes_.emplace_back();
      made.n_bytes = n_bytes + 1;
      made.stop = static_cast<uint32_t>(begin);
      made.byte = static_cast<unsigned char>(byte);
      ranges.emplace_back(begin, at);
    }
  }
  const auto n_nodes = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back().first_child = n_nodes;
}

// Goes through the nodes by their lengths, so that what is shorter is connected already.
void StopFinder::connect_nodes() {
  for (uint32_t i = 0; i + 1 < nodes_.size(); ++i) {
    for (uint32_t c = nodes_[i].first_child; c < nodes_[i + 1].first_child; ++c) {
      Node& node = nodes_[c];
      node.shorter = i == 0 ? 0 : after(nodes_[i].shorter, node.byte);
      if (node.found == kNone) node.found = nodes_[node.shorter].found;
    }
  }
}

uint32_t StopFinder::child(uint32_t node, unsigned char byte) const {
  const auto begin = nodes_.begin() + nodes_[node].first_child;
  const auto end = nodes_.begin() + nodes_[node + 1].first_child;
  const auto it =
      std::partition_point(begin, end, [&](const Node& other) { return other.byte < byte; });
  return it == end || it->byte != byte ? 0 : static_cast<uint32_t>(it - nodes_.begin());
}

uint32_t StopFinder::after(uint32_t node, unsigned char byte) const {
  for (;; node = nodes_[node].shorter) {
    const uint32_t next = child(node, byte);
    if (next != 0 || node == 0) return next;
  }
}

std::string_view StopFinder::text_of(uint32_t node) const {
  if (node == 0) return "";
  return std::string_view(stops_[nodes_[node].stop]).substr(0, nodes_[node].n_bytes);
}

std::string StopFinder::push(std::string_view text) {
  if (stopped()) return "";
  const std::string_view held = text_of(node_);
  size_t n_read = 0;
  while (n_read < text.size() && !stopped()) {
    node_ = after(node_, static_cast<unsigned char>(text[n_read++]));
    if (nodes_[node_].found != kNone) found_ = stops_[nodes_[node_].found];
  }
  const size_t n_kept = stopped() ? found_.size() : nodes_[node_].n_bytes;
  const size_t n_certain = held.size() + n_read - n_kept;
  std::string out(held.substr(0, n_certain));
  out += text.substr(0, n_certain - out.size());
  if (stopped()) node_ = 0;
  return out;
}

std::string StopFinder::finish() { return std::string(text_of(std::exchange(node_, 0))); }

}  // namespace troika::text
