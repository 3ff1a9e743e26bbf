// Finds the strings at which an answer ends.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troika::text {

// Finds the string that is complete first of some in a text that comes in pieces, and of those that
// are complete at the same place the longest. How the text is cut into pieces changes nothing. A
// byte takes the same time on average whatever the strings are, because strangers choose them.
class StopFinder {
 public:
  // Empty strings are ignored. All together have less than 2^32 bytes.
  explicit StopFinder(std::vector<std::string> stops);

  // Returns the text that is now certain not to belong to a stop string. After a stop string was
  // found nothing more comes out; the stop string itself never does.
  std::string push(std::string_view text);
  // Says that no more text comes. Returns what was held back.
  std::string finish();
  bool stopped() const { return !found_.empty(); }
  const std::string& found() const { return found_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  // A beginning of stop strings. This is the automaton of Aho and Corasick.
  struct Node {
    uint32_t n_bytes = 0;      // how long it is
    uint32_t stop = 0;         // a stop string that begins with it
    uint32_t first_child = 0;  // its children end where those of the next node begin
    uint32_t shorter = 0;      // the longest other node with which it ends
    uint32_t found = kNone;    // the longest stop string with which it ends
    unsigned char byte = 0;    // its last one
  };

  void add_nodes();
  void connect_nodes();
  // Returns the node that is this one and a byte more, or 0 where there is none.
  uint32_t child(uint32_t node, unsigned char byte) const;
  // Returns the longest node with which a text ends that ended with `node` and goes on with a byte.
  uint32_t after(uint32_t node, unsigned char byte) const;
  // Returns the bytes of a node.
  std::string_view text_of(uint32_t node) const;

  std::vector<std::string> stops_;  // sorted, each once
  std::vector<Node> nodes_;         // shorter ones first; one more than there are ends the last
  uint32_t node_ = 0;               // the longest one with which the text ends; it is held back
  std::string found_;
};

}  // namespace troika::text
