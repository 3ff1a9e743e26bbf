#include "server/calls/channels.h"

#include <algorithm>

#include "server/calls/partial.h"
#include "server/calls/probes.h"
#include "server/writer.h"

namespace troika::server {
namespace {

using grammar::Expr;
using grammar::Pool;

constexpr std::string_view kStart = "<|start|>assistant", kChannel = "<|channel|>",
                           kBody = "<|message|>", kTo = "to=functions.";
// Lists the marks that end a message.
constexpr std::string_view kEnds[] = {"<|end|>", "<|call|>", "<|return|>", "<|start|>"};
constexpr size_t kMostHeaderBytes = 512;

// Returns the word that begins at `begin`.
std::string word_at(const std::string& text, size_t begin) {
  return text.substr(begin, text.find_first_of(" <", begin) - begin);
}

// Says whether the text is the beginning of a header, or may become one.
bool may_be_header(const std::string& text) {
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) {
                       return end.starts_with(text) || text.starts_with(end);
                     }) ||
         kChannel.starts_with(text) || text.starts_with(kChannel) ||
         (" " + std::string(kTo)).starts_with(text) || text.starts_with(" " + std::string(kTo));
}

}  // namespace

std::string words_header() { return std::string(kChannel) + "final" + std::string(kBody); }

bool has_channels(const engine::ChatFormat& chat) {
  probes::Json whole = probes::messages(0);
  whole.push_back({{"role", "assistant"}, {"content", probes::kValue}});
  const std::optional<std::string> text = probes::answer_with(chat, whole);
  return text && text->starts_with(words_header() + probes::kValue);
}

Expr channels_expr(Pool* pool, Expr words, const std::vector<ChannelCall>& calls) {
  const Expr all = pool->no(Pool::kNone);
  const std::string end(kEnds[0]);
  const Expr to_end = pool->concat(pool->no(pool->concat(all, pool->literal(end, all))),
                                   pool->literal(end + std::string(kStart)));
  const std::string channel(kChannel), body(kBody), to(kTo);
  const Expr before = pool->any(pool->literal(channel + "analysis" + body, to_end),
                                pool->literal(channel + "commentary" + body, to_end));
  std::vector<Expr> last;
  if (words != Pool::kNone) last.push_back(pool->literal(words_header(), words));
  for (const ChannelCall& call : calls) {
    // The first form is what the model was trained on, the second what the template shows.
    last.push_back(pool->literal(
        channel + "commentary " + to + call.name + " <|constrain|>json" + body, call.arguments));
    last.push_back(
        pool->literal(" " + to + call.name + channel + "commentary json" + body, call.arguments));
  }
  return pool->concat(pool->star(before), pool->any(last));
}

// Reads a header. A text without a header is for the person.
bool ChannelReader::read_header(std::vector<Delta>* deltas) {
  const size_t at = held_.find(kBody);
  const bool is_whole = at != std::string::npos;
  // What came before the last letter of a whole header had to look like one too: a text means the
  // same in whichever parts it comes.
  const size_t n_judged = is_whole ? at + kBody.size() - 1 : held_.size();
  if (n_judged >= kMostHeaderBytes || !may_be_header(held_.substr(0, n_judged))) {
    kind_ = Delta::Kind::kText;
    is_in_body_ = true;
    return true;
  }
  if (!is_whole) return false;
  const std::string header = held_.substr(0, at);
  held_.erase(0, at + kBody.size());
  is_in_body_ = true;
  const size_t channel = header.find(kChannel), to = header.find(kTo);
  kind_ = Delta::Kind::kText;
  if (to != std::string::npos && has_calls_) {
    kind_ = Delta::Kind::kArguments;
    deltas->push_back({.kind = Delta::Kind::kCall,
                       .text = word_at(header, to + kTo.size()),
                       .id = random_id("call_")});
  } else if (channel != std::string::npos &&
             word_at(header, channel + kChannel.size()) == "analysis") {
    kind_ = Delta::Kind::kThought;
  }
  return true;
}

bool ChannelReader::read_body(std::vector<Delta>* deltas) {
  size_t end = std::string::npos, n_possible = 0, n_mark = 0;
  for (const std::string_view mark : kEnds) {
    const size_t at = held_.find(mark);
    if (at < end) {
      end = at;
      n_mark = mark.size();
    }
    n_possible = std::max(n_possible, possible_bytes(held_, mark));
  }
  const bool is_over = end != std::string::npos;
  const size_t n = is_over ? end : held_.size() - n_possible;
  if (n > 0) deltas->push_back({.kind = kind_, .text = held_.substr(0, n)});
  held_.erase(0, is_over ? n + n_mark : n);
  if (is_over) is_in_body_ = false;
  return is_over;
}

std::vector<Delta> ChannelReader::push(std::string_view text) {
  held_ += text;
  std::vector<Delta> deltas;
  while (!held_.empty() && (is_in_body_ ? read_body(&deltas) : read_header(&deltas))) {
  }
  return deltas;
}

// Ends the answer. A part of a mark at the end of a body is text; a part of a header is dropped.
std::vector<Delta> ChannelReader::finish() {
  if (!is_in_body_ || held_.empty()) return {};
  return {{.kind = kind_, .text = std::exchange(held_, "")}};
}

}  // namespace troika::server
