#include "text/stream.h"

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
  while (n_begins_shown_ < begins_.size() && begins_[n_begins_shown_] < n_bytes_shown_) {
    ++n_begins_shown_;
    ++n_shown_;
  }
  // They go when they are half of all, so that what is held back is seldom moved.
  if (2 * n_begins_shown_ >= begins_.size()) {
    begins_.erase(begins_.begin(), begins_.begin() + static_cast<ptrdiff_t>(n_begins_shown_));
    n_begins_shown_ = 0;
  }
  return text;
}

}  // namespace troika::text
