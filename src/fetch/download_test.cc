#include "fetch/download.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/digests/sha.h"
#include "base/error.h"
#include "fetch/name.h"
#include "fetch/url.h"
#include "tests/support/temp_folder.h"

namespace troika::fetch {
namespace {

using test::message_of;
using test::read_whole;
using test::TempFolder;
using test::write_whole;

// The tests have a server of one file, and a folder that the file goes to.
class DownloadTest : public testing::Test {
 protected:
  DownloadTest() {
    for (uint32_t i = 0; i < 100'000; ++i) data_.push_back(static_cast<char>(uint64_t{i} * i >> 3));
    file_ = {"m.gguf", data_.size(), hash_of(data_)};
    hooks_.pause = [this](int) { n_pauses_ += 1; };
    hooks_.note = [this](const std::string& text) { notes_ += text; };
  }
  static std::string hash_of(const std::string& text) {
    Sha256 hash;
    hash.add(text);
    return hash.hex();
  }
  // Answers honestly with at most `n_most` bytes.
  std::string answer(uint64_t offset, const HttpSink& sink, size_t n_most = SIZE_MAX) const {
    HttpHead head;
    head.status = offset > 0 ? 206 : 200;
    head.fields["content-length"] = std::to_string(data_.size() - offset);
    if (offset > 0) {
      head.fields["content-range"] =
          fmt::format("bytes {}-{}/{}", offset, data_.size() - 1, data_.size());
    }
    if (!sink.head(head)) return "";
    const auto rest = std::as_bytes(std::span(data_)).subspan(offset);
    sink.body(rest.first(std::min(rest.size(), n_most)));
    return n_most < rest.size() ? "cut" : "";
  }
  std::string get_versions(const AskForBytes& ask) {
    return message_of<Error>(
        [&] { download(file_, target(), stamp_of(target()), ask, hooks_)->commit(target()); });
  }
  // Lets `ask` answer, which knows nothing of versions.
  std::string get(const std::function<std::string(uint64_t, const HttpSink&)>& ask) {
    return get_versions([&](uint64_t offset, const std::string&, const HttpSink& sink) {
      return ask(offset, sink);
    });
  }
  std::string target() const { return folder_.file("org/repo/m.gguf"); }
  std::string part() const { return target() + "." + file_.sha256.substr(0, 16) + ".part"; }
  bool has(const std::string& path) const { return std::filesystem::exists(path); }

  TempFolder folder_;
  std::string data_, notes_;
  HubFile file_;
  DownloadHooks hooks_;
  int n_pauses_ = 0;
};

TEST_F(DownloadTest, WholeInOneAnswer) {
  EXPECT_EQ(get([&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink); }), "");
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_FALSE(has(part()));
  EXPECT_EQ(n_pauses_, 0);
}

TEST_F(DownloadTest, ACutConnectionIsTakenUpAgain) {
  std::vector<uint64_t> offsets;
  const auto ask = [&](uint64_t offset, const HttpSink& sink) {
    offsets.push_back(offset);
    return answer(offset, sink, 40'000);
  };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 40'000, 80'000}));
  EXPECT_EQ(n_pauses_, 2);
}

TEST_F(DownloadTest, TheNextRunGoesOn) {
  std::string message =
      get([&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink, 1000); });
  EXPECT_NE(message.find("goes on there"), std::string::npos) << message;
  EXPECT_NE(message.find("because: cut"), std::string::npos) << message;
  EXPECT_FALSE(has(target()));
  EXPECT_EQ(read_whole(part()), data_.substr(0, 5000));
  uint64_t begin = 0;
  EXPECT_EQ(get([&](uint64_t offset, const HttpSink& sink) {
              begin = offset;
              return answer(offset, sink);
            }),
            "");
  EXPECT_EQ(begin, 5000u);
  EXPECT_EQ(read_whole(target()), data_);
}

TEST_F(DownloadTest, AWholePartNeedsNoAnswer) {
  std::filesystem::create_directories(folder_.file("org/repo"));
  write_whole(part(), data_);
  EXPECT_EQ(get([](uint64_t, const HttpSink&) -> std::string { throw Error("asked."); }), "");
  EXPECT_EQ(read_whole(target()), data_);
}

TEST_F(DownloadTest, APartThatIsTooLongOrWrong) {
  std::filesystem::create_directories(folder_.file("org/repo"));
  write_whole(part(), data_ + "more");
  const auto ask = [&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink); };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
  write_whole(part(), "wrong");
  EXPECT_NE(get(ask).find("SHA-256"), std::string::npos);
  EXPECT_FALSE(has(part()));
  EXPECT_EQ(read_whole(target()), data_);  // shows that the older file stays
}

TEST_F(DownloadTest, AServerWithoutRanges) {
  int n = 0;
  const auto ask = [&](uint64_t, const HttpSink& sink) {
    return answer(0, sink, n++ == 0 ? 40'000 : SIZE_MAX);
  };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
}

TEST_F(DownloadTest, SizesThatAreLies) {
  const auto with_length = [&](size_t length) {
    return [this, length](uint64_t, const HttpSink& sink) {
      HttpHead head;
      head.status = 200;
      if (length > 0) head.fields["content-length"] = std::to_string(length);
      if (!sink.head(head)) return "";
      while (sink.body(std::as_bytes(std::span(data_)))) {
      }
      return "";
    };
  };
  for (const size_t length : {size_t{0}, data_.size() - 1, data_.size() + 1}) {
    const std::string message = get(with_length(length));
    EXPECT_NE(message.find("100000 that the list"), std::string::npos) << message;
    EXPECT_FALSE(has(part()));
    EXPECT_FALSE(has(target()));
  }
}

TEST_F(DownloadTest, AnswersThatCannotBeOfThisFileKeepThePart) {
  std::filesystem::create_directories(folder_.file("org/repo"));
  for (const int status : {200, 416}) {
    write_whole(part(), data_.substr(0, 5000));
    const std::string message = get([&](uint64_t, const HttpSink& sink) {
      sink.head({status, {{"content-length", "3000"}}});
      return "";
    });
    EXPECT_NE(message.find("100000 that the list"), std::string::npos) << message;
    EXPECT_EQ(read_whole(part()), data_.substr(0, 5000));
  }
  const std::string message = get([&](uint64_t, const HttpSink& sink) {
    if (sink.head({200, {}})) sink.body(std::as_bytes(std::span(data_)));
    return "";
  });
  EXPECT_NE(message.find("does not go on"), std::string::npos) << message;
  EXPECT_NE(message.find(part()), std::string::npos) << message;
  EXPECT_EQ(read_whole(part()), data_.substr(0, 5000));
}

// A page to sign in to a network comes in chunks, without a length, and ends as it should.
TEST_F(DownloadTest, AShortAnswerWithoutALengthIsNoBeginning) {
  std::vector<uint64_t> offsets;
  const auto ask = [&](uint64_t offset, const HttpSink& sink) -> std::string {
    offsets.push_back(offset);
    if (offsets.size() > 1) return answer(offset, sink);
    const std::string page = "<html>Sign in</html>";
    if (sink.head({200, {}})) sink.body(std::as_bytes(std::span(page)));
    return "";
  };
  file_.sha256.clear();
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 0}));
}

// What came before the connection broke may well be the beginning of the file.
TEST_F(DownloadTest, ACutAnswerWithoutALengthIsTakenUpAgain) {
  std::vector<uint64_t> offsets;
  const auto ask = [&](uint64_t offset, const HttpSink& sink) -> std::string {
    offsets.push_back(offset);
    if (offsets.size() > 1) return answer(offset, sink);
    if (sink.head({200, {}})) sink.body(std::as_bytes(std::span(data_)).first(5000));
    return "cut";
  };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0, 5000}));
}

TEST_F(DownloadTest, TooManyBytesTakeOnlyTheirAnswerAway) {
  const auto ask = [&](uint64_t offset, const HttpSink& sink) -> std::string {
    if (offset == 0) return answer(0, sink, 5000);
    sink.head({206, {{"content-range", "bytes 5000-99999/100000"}}});
    const auto bytes = std::as_bytes(std::span(data_));
    if (sink.body(bytes.first(1000))) sink.body(bytes);
    return "";
  };
  const std::string message = get(ask);
  EXPECT_NE(message.find("more bytes"), std::string::npos) << message;
  EXPECT_EQ(read_whole(part()), data_.substr(0, 5000));
}

TEST_F(DownloadTest, AnEndThatComesTooEarly) {
  const std::string message = get([&](uint64_t offset, const HttpSink& sink) {
    answer(offset, sink, 5000);
    return "";
  });
  EXPECT_NE(message.find("the answer ends too early"), std::string::npos) << message;
}

TEST_F(DownloadTest, AnswersToOtherQuestions) {
  std::filesystem::create_directories(folder_.file("org/repo"));
  for (const char* range : {"", "bytes 0-99999/100000", "bytes 10-99999/100001", "junk"}) {
    write_whole(part(), data_.substr(0, 10));
    const std::string message = get([&](uint64_t, const HttpSink& sink) {
      HttpHead head;
      head.status = 206;
      head.fields["content-range"] = range;
      sink.head(head);
      return "";
    });
    EXPECT_NE(message.find("the server sends"), std::string::npos) << range << message;
  }
}

TEST_F(DownloadTest, AServerInTroubleIsAskedAgain) {
  int n = 0;
  const auto ask = [&](uint64_t offset, const HttpSink& sink) -> std::string {
    if (n++ == 3) return answer(offset, sink);
    HttpHead head;
    head.status = 503;
    sink.head(head);
    return "";
  };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(n_pauses_, 3);
  std::filesystem::remove(target());
  const std::string message = get([&](uint64_t offset, const HttpSink& sink) {
    n = 0;
    return ask(offset, sink);
  });
  EXPECT_NE(message.find("503"), std::string::npos) << message;
  EXPECT_FALSE(has(part()));  // shows that an empty part is not kept
}

TEST_F(DownloadTest, WithoutAHashTheSizeIsChecked) {
  file_.sha256.clear();
  EXPECT_EQ(get([&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink); }), "");
  EXPECT_NE(notes_.find("only its size"), std::string::npos);
  EXPECT_EQ(read_whole(target()), data_);
}

// The part of a file without a hash may be the beginning of an older one of the same size.
TEST_F(DownloadTest, WithoutAHashEachRunBeginsAnew) {
  file_.sha256.clear();
  const std::string message =
      get([&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink, 1000); });
  EXPECT_NE(message.find("begins anew"), std::string::npos) << message;
  data_[0] = static_cast<char>(data_[0] ^ 1);
  std::vector<uint64_t> offsets;
  EXPECT_EQ(get([&](uint64_t offset, const HttpSink& sink) {
              offsets.push_back(offset);
              return answer(offset, sink);
            }),
            "");
  EXPECT_EQ(offsets, (std::vector<uint64_t>{0}));
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_FALSE(is_same_file(target(), file_, hooks_.progress));
}

// A server whose file is replaced by another of the same size after its first answer, which breaks
// off. What the tests look at is what came of two versions of a file without a hash.
class ReplacedFileTest : public DownloadTest {
 protected:
  ReplacedFileTest() {
    file_.sha256.clear();
    older_ = std::string(100'000, 'o');
    newer_ = std::string(100'000, 'n');
  }
  // `fields` returns the fields that tell the version, of the older file or of the newer one.
  std::string get_replaced(const std::function<std::map<std::string, std::string>(bool)>& fields,
                           bool knows_if_range, int n_cut = 1) {
    return get_versions([&, knows_if_range, n_cut](uint64_t offset, const std::string& version,
                                                   const HttpSink& sink) -> std::string {
      const bool is_first = offsets_.empty();
      offsets_.push_back(offset);
      versions_.push_back(version);
      const std::string& data = is_first ? older_ : newer_;
      HttpHead head = {200, fields(is_first)};
      const bool is_other = !version.empty() && !is_of_version(head, version);
      if (knows_if_range && is_other) offset = 0;
      if (offset > 0) {
        head.status = 206;
        head.fields["content-range"] = fmt::format("bytes {}-99999/100000", offset);
      }
      head.fields["content-length"] = std::to_string(data.size() - offset);
      if (!sink.head(head)) return "";
      const auto rest = std::as_bytes(std::span(data)).subspan(offset);
      const bool is_cut = static_cast<int>(offsets_.size()) <= n_cut;
      sink.body(is_cut ? rest.first(std::min<size_t>(rest.size(), 40'000)) : rest);
      return is_cut ? "cut" : "";
    });
  }
  static std::map<std::string, std::string> tag(const char* text) { return {{"etag", text}}; }

  std::string older_, newer_;
  std::vector<uint64_t> offsets_;
  std::vector<std::string> versions_;
};

TEST_F(ReplacedFileTest, AServerThatKnowsIfRangeSendsTheNewFileWhole) {
  EXPECT_EQ(get_replaced([](bool is_older) { return tag(is_older ? "\"a\"" : "\"b\""); }, true),
            "");
  EXPECT_EQ(read_whole(target()), newer_);
  EXPECT_EQ(versions_, (std::vector<std::string>{"", "\"a\""}));
  EXPECT_EQ(offsets_, (std::vector<uint64_t>{0, 40'000}));
}

TEST_F(ReplacedFileTest, OneThatDoesNotIsAskedForTheNewFileAgain) {
  EXPECT_EQ(get_replaced([](bool is_older) { return tag(is_older ? "\"a\"" : "\"b\""); }, false),
            "");
  EXPECT_EQ(read_whole(target()), newer_);
  EXPECT_EQ(offsets_, (std::vector<uint64_t>{0, 40'000, 0}));
}

TEST_F(ReplacedFileTest, ADateTellsWhereThereIsNoTag) {
  const auto dates = [](bool is_older) -> std::map<std::string, std::string> {
    return {{"date", "Mon, 30 Nov 2026 15:00:00 GMT"},
            {"last-modified",
             is_older ? "Mon, 30 Nov 2026 14:00:00 GMT" : "Mon, 30 Nov 2026 14:00:01 GMT"}};
  };
  for (const bool knows_if_range : {true, false}) {
    offsets_.clear();
    EXPECT_EQ(get_replaced(dates, knows_if_range), "");
    EXPECT_EQ(read_whole(target()), newer_);
    EXPECT_EQ(offsets_.size(), knows_if_range ? 2u : 3u);
  }
}

TEST_F(ReplacedFileTest, WithoutAVersionEachTryBeginsAnew) {
  const std::map<std::string, std::string> nothing, weak = tag("W/\"a\"");
  for (const auto* fields : {&nothing, &weak}) {
    offsets_.clear();
    EXPECT_EQ(get_replaced([&](bool) { return *fields; }, true), "");
    EXPECT_EQ(read_whole(target()), newer_);
    EXPECT_EQ(offsets_, (std::vector<uint64_t>{0, 0}));
  }
}

// What is begun anew comes to the same place again and again, which is no progress.
TEST_F(ReplacedFileTest, ATryThatBeginsAnewIsNotTriedForEver) {
  older_.resize(3u << 20, 'o');
  newer_.resize(3u << 20, 'n');
  file_.bytes = older_.size();
  int n = 0;
  const std::string message = get([&](uint64_t offset, const HttpSink& sink) -> std::string {
    EXPECT_EQ(offset, 0u);
    if (++n > 20) throw Error("asked too often.");
    if (n % 2 == 0) return "no answer";
    sink.head({200, {{"content-length", std::to_string(file_.bytes)}}});
    sink.body(std::as_bytes(std::span(older_)).first(2u << 20));
    return "cut";
  });
  EXPECT_NE(message.find("broke off 5 times"), std::string::npos) << message;
}

TEST_F(ReplacedFileTest, AFileThatStaysGoesOn) {
  newer_ = older_;
  EXPECT_EQ(get_replaced([](bool) { return tag("\"a\""); }, true, 2), "");
  EXPECT_EQ(read_whole(target()), older_);
  EXPECT_EQ(offsets_, (std::vector<uint64_t>{0, 40'000, 80'000}));
  EXPECT_EQ(versions_, (std::vector<std::string>{"", "\"a\"", "\"a\""}));
}

TEST_F(DownloadTest, TheHashOfGitTellsVersionsApart) {
  file_.sha256.clear();
  const auto git_hash = [&] {
    Sha1 hash;
    hash.add("blob 100000");
    hash.add(std::string_view("\0", 1));
    hash.add(data_);
    return hash.hex();
  };
  file_.git_sha1 = git_hash();
  get([&](uint64_t offset, const HttpSink& sink) { return answer(offset, sink, 1000); });
  const std::string old_part = target() + "." + file_.git_sha1.substr(0, 16) + ".part";
  EXPECT_EQ(read_whole(old_part), data_.substr(0, 5000));
  uint64_t begin = 0;
  const auto ask = [&](uint64_t offset, const HttpSink& sink) {
    begin = offset;
    return answer(offset, sink);
  };
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(begin, 5000u);
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_TRUE(is_same_file(target(), file_, hooks_.progress));
  data_[0] = static_cast<char>(data_[0] ^ 1);
  EXPECT_NE(get(ask).find("the SHA-1 of git"), std::string::npos);
  EXPECT_FALSE(has(old_part));
  file_.git_sha1 = git_hash();
  EXPECT_FALSE(is_same_file(target(), file_, hooks_.progress));
  EXPECT_EQ(get(ask), "");
  EXPECT_EQ(read_whole(target()), data_);
  EXPECT_EQ(notes_, "");
}

TEST_F(DownloadTest, TheLongestNameHasRoomForItsPart) {
  const std::string name(227, 'a');
  ASSERT_TRUE(is_safe_path(name));
  file_.sha256.clear();
  file_.bytes = 1'000'000'000'000'000;
  const auto ask = [](uint64_t, const std::string&, const HttpSink&) -> std::string {
    return "nobody";
  };
  const std::string message =
      message_of<Error>([&] { download(file_, folder_.file(name), std::nullopt, ask, hooks_); });
  // The download fails for lack of space and not because of the name.
  EXPECT_NE(message.find("on this disk"), std::string::npos) << message;
}

TEST_F(DownloadTest, SameFiles) {
  write_whole(folder_.file("a"), data_);
  EXPECT_TRUE(is_same_file(folder_.file("a"), file_, hooks_.progress));
  file_.sha256[0] = file_.sha256[0] == '0' ? '1' : '0';
  EXPECT_FALSE(is_same_file(folder_.file("a"), file_, hooks_.progress));
  file_.bytes += 1;
  EXPECT_FALSE(is_same_file(folder_.file("a"), file_, hooks_.progress));
  EXPECT_FALSE(is_same_file(folder_.file("none"), file_, hooks_.progress));
}

// Another process finishes the file between the look at the target and the lock of its part.
TEST_F(DownloadTest, WhatAnotherProcessHasFinishedIsNotMadeAgain) {
  const auto refuse = [](uint64_t, const std::string&, const HttpSink&) -> std::string {
    throw Error("asked.");
  };
  std::filesystem::create_directories(folder_.file("org/repo"));
  for (const bool was_there : {false, true}) {
    if (was_there) write_whole(target(), "older");
    const std::optional<FileStamp> seen = stamp_of(target());
    EXPECT_EQ(seen.has_value(), was_there);
    write_whole(folder_.file("other"), data_);
    std::filesystem::rename(folder_.file("other"), target());
    EXPECT_EQ(download(file_, target(), seen, refuse, hooks_), nullptr);
    EXPECT_FALSE(has(part()));
    EXPECT_EQ(read_whole(target()), data_);
  }
}

TEST_F(DownloadTest, MoreThanTheDiskHolds) {
  file_.bytes = uint64_t{1} << 50;
  const std::string message = get([](uint64_t, const HttpSink&) { return std::string(); });
  EXPECT_NE(message.find("more are needed on this disk"), std::string::npos) << message;
}

}  // namespace
}  // namespace troika::fetch
