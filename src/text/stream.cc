#include "text/stream.h"

#include <algorithm>

#include "text/utf8.h"

namespace troika::text {
namespace {

// Is the room that is taken at once for tokens that are held back, so that steps take none.
constexpr size_t kUsualHeldTokens = 64;

}  // namespace

std::string Utf8Stream::push(std::string_view bytes) {
  held_ += bytes;
  const size_t tail = incomplete_utf8_tail(held_);
  const std::string_view certain = std::string_view(held_).substr(0, held_.size() - tail);
  std::string out = replace_invalid_utf8(certain);
  held_.erase(0, certain.size());
  return out;
}

std::string Utf8Stream::finish() {
  std::string out = replace_invalid_utf8(held_);
  held_.clear();
  return out;
}

StopFinder::StopFinder(std::vector<std::string> stops) : stops_(std::move(stops)) {
  std::erase(stops_, "");
}

std::string StopFinder::push(std::string_view text) {
  if (stopped()) return "";
  held_ += text;
  size_t first = 0;
  for (const std::string& stop : stops_) {
    const size_t at = held_.find(stop);
    if (at == std::string::npos) continue;
    // The string that is complete first is found, wherever the text is cut, and of those that are
    // complete at the same place the longest, which begins first.
    const size_t end = at + stop.size(), best = first + found_.size();
    if (!stopped() || end < best || (end == best && at < first)) {
      first = at;
      found_ = stop;
    }
  }
  const size_t certain = stopped() ? first : held_.size() - possible_stop_bytes();
  std::string out = held_.substr(0, certain);
  if (stopped()) {
    held_.clear();
  } else {
    held_.erase(0, certain);
  }
  return out;
}

std::string StopFinder::finish() {
  std::string out;
  out.swap(held_);
  return out;
}

size_t StopFinder::possible_stop_bytes() const {
  size_t longest = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > longest; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) longest = n;
    }
  }
  return longest;
}

TextStream::TextStream(const Tokenizer& tokenizer, Options options)
    : tokenizer_(tokenizer),
      render_special_(options.render_special),
      strip_space_(options.at_beginning && tokenizer.vocabulary().add_space_prefix),
      stops_(std::move(options.stops)) {
  begins_.reserve(kUsualHeldTokens);
}

std::string TextStream::push(Token token) {
  const std::string_view bytes = tokenizer_.piece_in_text(token, render_special_, &strip_space_);
  begins_.push_back(n_bytes_);
  const std::string characters = utf8_.push(bytes);
  n_bytes_ += characters.size();
  return show(stops_.push(characters));
}

std::string TextStream::finish() {
  std::string out = stops_.push(utf8_.finish());
  return show(out + stops_.finish());
}

// Counts the tokens that the text shows, and returns it.
std::string TextStream::show(std::string text) {
  n_bytes_shown_ += text.size();
  const auto end = std::find_if(begins_.begin(), begins_.end(),
                                [this](size_t begin) { return begin >= n_bytes_shown_; });
  n_shown_ += static_cast<int>(end - begins_.begin());
  begins_.erase(begins_.begin(), end);
  return text;
}

}  // namespace troika::text
