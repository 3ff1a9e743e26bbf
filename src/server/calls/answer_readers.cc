#include "server/calls/answer_readers.h"

#include <algorithm>

#include "server/calls/partial.h"
#include "server/writer.h"

namespace troika::server {
namespace {

constexpr const char* kSpaces = " \n\r\t";

// Counts the bytes at the end of the text that may begin the mark, with white space before them.
size_t possible_with_space(std::string_view text, std::string_view mark) {
  const size_t n = possible_bytes(text, mark);
  const size_t last = text.substr(0, text.size() - n).find_last_not_of(kSpaces);
  return text.size() - (last == std::string_view::npos ? 0 : last + 1);
}

void append(std::vector<Delta>* to, std::vector<Delta> from) {
  std::move(from.begin(), from.end(), std::back_inserter(*to));
}

Delta text_delta(Delta::Kind kind, std::string text) {
  return {.kind = kind, .text = std::move(text)};
}

}  // namespace

bool CallReader::read_text(std::vector<Delta>* deltas) {
  const size_t at = held_.find(trigger_);
  if (at == std::string::npos) {
    const size_t n = held_.size() - possible_with_space(held_, trigger_);
    if (n > 0) deltas->push_back(text_delta(Delta::Kind::kText, held_.substr(0, n)));
    held_.erase(0, n);
    return false;
  }
  const size_t last = at == 0 ? std::string::npos : held_.find_last_not_of(kSpaces, at - 1);
  const size_t n = last == std::string::npos ? 0 : last + 1;
  if (n > 0) deltas->push_back(text_delta(Delta::Kind::kText, held_.substr(0, n)));
  read_ = held_.substr(n, at + trigger_.size() - n);
  held_.erase(0, at + trigger_.size());
  state_ = State::kName;
  return true;
}

bool CallReader::read_name(std::vector<Delta>* deltas) {
  constexpr size_t kMostBytes = 256;  // limits a name
  const size_t at = shape_.end_of_name(held_);
  if (at == std::string::npos) {
    if (held_.size() < kMostBytes + shape_.middle.size()) return false;
    flush(deltas);
    return true;
  }
  name_ = held_.substr(0, at);
  if (!shape_.behind_count.empty()) name_.resize(std::min(name_.rfind(shape_.middle), at));
  std::string id = random_id("call_");
  const size_t id_end = shape_.behind_id.empty() ? std::string::npos : name_.find(shape_.behind_id);
  if (id_end != std::string::npos) {
    id = name_.substr(0, id_end);
    name_.erase(0, id_end + shape_.behind_id.size());
  }
  deltas->push_back({.kind = Delta::Kind::kCall, .text = name_, .id = id});
  ++n_calls_;
  n_pairs_ = 0;
  read_.clear();
  held_.erase(0, at + (shape_.behind_count.empty() ? shape_.middle : shape_.behind_count).size());
  state_ = shape_.pairs               ? State::kPairs
           : shape_.text_mark.empty() ? State::kArguments
                                      : State::kMarked;
  marked_ = MarkedJson(shape_.text_mark);
  depth_ = 0;
  is_string_ = is_escaped_ = false;
  return true;
}

bool CallReader::read_arguments(std::vector<Delta>* deltas) {
  size_t n = 0;
  bool is_done = false;
  while (n < held_.size() && !is_done) {
    const char c = held_[n++];
    if (is_escaped_) {
      is_escaped_ = false;
    } else if (is_string_) {
      is_escaped_ = c == '\\';
      is_string_ = c != '"';
    } else if (c == '"') {
      is_string_ = true;
    } else if (c == '{' || c == '[') {
      ++depth_;
    } else if (c == '}' || c == ']') {
      is_done = --depth_ <= 0;
    }
  }
  if (n > 0) deltas->push_back(text_delta(Delta::Kind::kArguments, held_.substr(0, n)));
  held_.erase(0, n);
  if (is_done) state_ = State::kBehind;
  return is_done;
}

bool CallReader::read_marked(std::vector<Delta>* deltas) {
  std::string json;
  const bool is_done = marked_.read(&held_, &json);
  if (!json.empty()) deltas->push_back(text_delta(Delta::Kind::kArguments, std::move(json)));
  if (is_done) state_ = State::kBehind;
  return is_done;
}

// Reads pairs. Each becomes a member of a JSON object once it is whole, as the kind of its value is
// not known before.
bool CallReader::read_pairs(std::vector<Delta>* deltas) {
  const CallShape::Pairs& pairs = *shape_.pairs;
  const auto add = [&](std::string text) {
    deltas->push_back(text_delta(Delta::Kind::kArguments, std::move(text)));
  };
  // What ends a call may look like the beginning of a pair, so the end is looked for first.
  const bool is_ending = !ending_.empty() && held_.starts_with(ending_);
  if (held_.size() < ending_.size() && ending_.starts_with(held_)) return false;
  if (!held_.starts_with(pairs.open) || is_ending) {
    if (held_.size() < pairs.open.size() && pairs.open.starts_with(held_)) return false;
    add(n_pairs_ == 0 ? "{}" : "}");
    state_ = State::kBehind;
    return true;
  }
  const size_t key = pairs.open.size();
  const size_t to_text = held_.find(pairs.to_text, key), to_json = held_.find(pairs.to_json, key);
  const size_t key_end = std::min(to_text, to_json);
  if (key_end == std::string::npos) return false;
  const bool is_text = to_text <= to_json;
  const size_t value = key_end + (is_text ? pairs.to_text : pairs.to_json).size();
  const std::string name = held_.substr(key, key_end - key);
  const std::string close = pairs.close_of(name);
  const size_t value_end = held_.find(close, value);
  if (value_end == std::string::npos) return false;
  ValueKinds kinds = kinds_of_(name_, name);
  // If texts and other values have different marks, the marks tell more than the schema.
  if (pairs.to_text != pairs.to_json) kinds = {is_text, !is_text};
  add((n_pairs_++ == 0 ? "{" : ",") + dump(Json(name)) + ":" +
      value_json(held_.substr(value, value_end - value), kinds));
  held_.erase(0, value_end + close.size());
  return true;
}

// Drops what stands between calls and behind the last call. Another call begins with the trigger,
// or with `between` of the shape.
bool CallReader::read_behind() {
  if (!shape_.between.empty() && held_.starts_with(shape_.between)) {
    held_.erase(0, shape_.between.size());
    state_ = State::kName;
    return true;
  }
  const std::string_view between = shape_.between;
  if (held_.size() < between.size() && between.starts_with(held_)) return false;
  if (held_.size() < shape_.after.size() && shape_.after.starts_with(held_)) return false;
  if (held_.starts_with(shape_.after)) held_.erase(0, shape_.after.size());
  state_ = State::kText;
  return true;
}

// Writes as text what looked like a call but is none.
void CallReader::flush(std::vector<Delta>* deltas) {
  const std::string text = read_ + std::exchange(held_, "");
  read_.clear();
  state_ = State::kText;
  if (!text.empty()) deltas->push_back(text_delta(Delta::Kind::kText, text));
}

std::vector<Delta> CallReader::push(std::string_view text) {
  held_ += text;
  std::vector<Delta> deltas;
  bool goes_on = true;
  while (goes_on && !held_.empty()) {
    switch (state_) {
      case State::kText:
        goes_on = read_text(&deltas);
        break;
      case State::kName:
        goes_on = read_name(&deltas);
        break;
      case State::kArguments:
        goes_on = read_arguments(&deltas);
        break;
      case State::kPairs:
        goes_on = read_pairs(&deltas);
        break;
      case State::kMarked:
        goes_on = read_marked(&deltas);
        break;
      case State::kBehind:
        goes_on = read_behind();
        break;
    }
  }
  return deltas;
}

std::vector<Delta> CallReader::finish() {
  std::vector<Delta> deltas;
  const bool is_white = held_.find_first_not_of(kSpaces) == std::string::npos;
  if (state_ == State::kBehind || (n_calls_ > 0 && state_ == State::kText && is_white)) return {};
  // If the answer was cut off within a pair, the object ends before this pair.
  if (state_ == State::kPairs)
    return {text_delta(Delta::Kind::kArguments, n_pairs_ > 0 ? "}" : "{}")};
  // What is held of marked arguments is half a key, half a mark or half a character, but no text.
  if (state_ == State::kMarked) return {};
  flush(&deltas);
  return deltas;
}

std::vector<Delta> ThoughtReader::push(std::string_view text) {
  if (state_ == State::kAnswer) return inner_->push(text);
  held_ += text;
  std::vector<Delta> deltas;
  if (state_ == State::kBegin) {
    const size_t begin = std::min(held_.find_first_not_of(kSpaces), held_.size());
    const std::string_view rest = std::string_view(held_).substr(begin);
    if (rest.starts_with(marks_.open)) {
      held_.erase(0, begin + marks_.open.size());
      state_ = State::kThought;
    } else if (marks_.open.starts_with(rest)) {
      return {};
    } else {
      state_ = State::kAnswer;
      return inner_->push(std::exchange(held_, ""));
    }
  }
  if (state_ == State::kThought) {
    const size_t at = held_.find(marks_.close);
    const bool is_over = at != std::string::npos;
    const size_t n = is_over ? at : held_.size() - possible_bytes(held_, marks_.close);
    if (n > 0) deltas.push_back(text_delta(Delta::Kind::kThought, held_.substr(0, n)));
    held_.erase(0, is_over ? n + marks_.close.size() : n);
    if (is_over) state_ = State::kBetween;
  }
  if (state_ == State::kBetween) {
    held_.erase(0, std::min(held_.find_first_not_of(kSpaces), held_.size()));
    if (held_.empty()) return deltas;
    state_ = State::kAnswer;
    append(&deltas, inner_->push(std::exchange(held_, "")));
  }
  return deltas;
}

std::vector<Delta> ThoughtReader::finish() {
  std::vector<Delta> deltas;
  if (!held_.empty()) {
    if (state_ == State::kThought) {
      deltas.push_back(text_delta(Delta::Kind::kThought, held_));
    } else {
      append(&deltas, inner_->push(held_));
    }
  }
  append(&deltas, inner_->finish());
  return deltas;
}

}  // namespace troika::server
