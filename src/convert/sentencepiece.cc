#include "convert/sentencepiece.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/error.h"

namespace troika::convert {
namespace {

using text::Token;
using text::TokenType;

constexpr size_t kMostPieces = size_t{1} << 22;

// One field of a message: a number, or the bytes inside of it.
struct Field {
  uint64_t id = 0;
  uint64_t number = 0;
  std::string_view bytes;
};

class Message {
 public:
  Message(std::string_view bytes, const std::string& name) : rest_(bytes), name_(name) {}

  // Returns the next field; nothing at the end. Groups, which are out of use, are refused.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    const uint64_t tag = varint();
    Field field;
    field.id = tag >> 3;
    switch (tag & 7) {
      case 0:
        field.number = varint();
        break;
      case 1:
        field.bytes = take(8);
        break;
      case 2:
        field.bytes = take(varint());
        break;
      case 5:
        field.bytes = take(4);
        break;
      default:
        fail();
    }
    if (field.id == 0) fail();
    return field;
  }

  [[noreturn]] void fail() const {
    throw Error(fmt::format(
        "{}: it is no model of SentencePiece, or a damaged one; download it again.", name_));
  }

 private:
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
    fail();
  }
  std::string_view take(uint64_t n) {
    if (n > rest_.size()) fail();
    const std::string_view taken = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return taken;
  }

  std::string_view rest_;
  const std::string& name_;
};

void read_piece(std::string_view bytes, const std::string& name, text::Vocabulary* v) {
  Message message(bytes, name);
  std::string token;
  float score = 0.0F;
  uint64_t type = 1;
  while (const auto field = message.next()) {
    if (field->id == 1) token = field->bytes;
    if (field->id == 3) type = field->number;
    if (field->id == 2) {
      if (field->bytes.size() != sizeof score) message.fail();
      std::memcpy(&score, field->bytes.data(), sizeof score);
    }
  }
  // The numbers of types are those of TokenType.
  if (type < 1 || type > 6 || token.size() > kMostTokenBytes || v->tokens.size() == kMostPieces) {
    message.fail();
  }
  v->tokens.push_back(std::move(token));
  v->scores.push_back(score);
  v->types.push_back(static_cast<TokenType>(type));
}

Token id_of(uint64_t number) {
  const auto id = static_cast<int64_t>(number);
  return id >= 0 && id < static_cast<int64_t>(kMostPieces) ? static_cast<Token>(id)
                                                           : text::kNoToken;
}

void read_training(std::string_view bytes, const std::string& name, text::Vocabulary* v) {
  constexpr uint64_t kUnigram = 1, kBpe = 2;
  uint64_t model_type = kUnigram;
  Message message(bytes, name);
  while (const auto field = message.next()) {
    if (field->id == 3) model_type = field->number;
    if (field->id == 40) v->unk = id_of(field->number);
    if (field->id == 41) v->bos = id_of(field->number);
    if (field->id == 42) v->eos = id_of(field->number);
    if (field->id == 43) v->pad = id_of(field->number);
  }
  if (model_type == kBpe) return;
  throw Error(
      fmt::format("{}: the tokenizer is of the kind {}; this program knows those of SentencePiece "
                  "that are BPE. Take another model.",
                  name, model_type == kUnigram ? "unigram" : "words or characters"));
}

}  // namespace

SentencePiece read_sentencepiece(std::span<const std::byte> bytes, const std::string& name) {
  SentencePiece model;
  text::Vocabulary& v = model.vocabulary;
  v.kind = text::VocabularyKind::kSpm;
  v.pre = "default";
  v.unk = 0, v.bos = 1, v.eos = 2, v.pad = text::kNoToken;
  bool has_training = false;
  Message message({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, name);
  while (const auto field = message.next()) {
    if (field->id == 1) read_piece(field->bytes, name, &v);
    if (field->id == 2) {
      read_training(field->bytes, name, &v);
      has_training = true;
    }
    if (field->id == 3) {
      Message normalizer(field->bytes, name);
      while (const auto inner = normalizer.next()) {
        if (inner->id == 2) model.maps_characters = !inner->bytes.empty();
        if (inner->id == 3) model.has_space_prefix = inner->number != 0;
        if (inner->id == 4) model.removes_spaces = inner->number != 0;
      }
    }
  }
  if (v.tokens.empty() || !has_training) message.fail();
  return model;
}

}  // namespace troika::convert
