// The house model that attends over 4,096 positions finds sentences that are hidden in a long text.
// So it tells whether a choice of positions is good, which perplexity of a small model hardly does.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/session.h"
#include "tests/support/repository.h"
#include "tune/default_text.h"

namespace troika {
namespace {

using plan::AttentionForm;
using text::Token;

struct Fact {
  const char *sentence, *question, *answer;
};

// Names and answers are on the side of values that no training sees.
constexpr std::array kFacts = {
    Fact{"Esiefroum Oublain lives in Rowouton.", "Where does Esiefroum Oublain live?", "Rowouton"},
    Fact{"Droza Aglean bought a plain bell.", "What did Droza Aglean buy?", "plain bell"},
    Fact{"Thespout Stogishont's room has the number A47-L55.",
         "What is the number of Thespout Stogishont's room?", "A47-L55"},
    Fact{"Thizet Flieshod comes from Kexwick.", "Where does Thizet Flieshod come from?", "Kexwick"},
    Fact{"Speglap Skoclestie lost a hidden needle on the way home.",
         "What did Speglap Skoclestie lose?", "hidden needle"},
    Fact{"Cegle Bopla has a dog called Solou.", "What is the name of Cegle Bopla's dog?", "Solou"},
    Fact{"Thacried Craclasta reads a book called The Golden Shell.",
         "What is Thacried Craclasta's book called?", "The Golden Shell"},
    Fact{"Sit Vis gets up at 11:29.", "When does Sit Vis get up?", "11:29"},
};
constexpr size_t kTextBytes = 11000;
// So many bytes stand behind the questions: tokens of a last tile that is not full attend to all.
constexpr size_t kBytesBehind = 400;

// Keeps the token that a model says next, at the positions that are asked about.
class SaidNext : public engine::PromptObserver {
 public:
  explicit SaidNext(const std::map<int, Token>& wanted) : wanted_(wanted) {}
  bool wants(int position) const override { return wanted_.contains(position); }
  void see(int position, std::span<const float> logits) override {
    const auto best = std::max_element(logits.begin(), logits.end());
    said_[position] = static_cast<Token>(best - logits.begin());
  }
  void took(double) override {}
  const std::map<int, Token>& said() const { return said_; }

 private:
  const std::map<int, Token>& wanted_;
  std::map<int, Token> said_;
};

class DistantFacts : public testing::Test {
 protected:
  static prepare::Options options(AttentionForm form) {
    prepare::Options options;
    options.model.file = test::repository_file("models/troika-silu-4k-q8_0.gguf");
    options.memory.context = 4096;
    options.lanes.n_threads = 1;
    options.prompts.prefill = plan::Prefill::kQ8;
    options.prompts.attention = form;
    if (form != AttentionForm::kFull) options.prompts.attention_from = 512;
    return options;
  }

  // Adds the beginning of a chapter that no training saw, with the facts spread over it, each
  // behind the end of a sentence.
  static void add_text(std::string* text) {
    const std::string_view chapter = tune::default_text();
    size_t at = 0;
    for (size_t i = 0; i < kFacts.size(); ++i) {
      const size_t end = chapter.find(". ", kTextBytes * (2 * i + 1) / (2 * kFacts.size())) + 1;
      *text += std::string(chapter.substr(at, end - at)) + " " + kFacts[i].sentence;
      at = end;
    }
    *text += chapter.substr(at, kTextBytes - at);
  }

  // Returns how many answers the model would have given as they stand behind the questions, which
  // are asked at the end of the text.
  static int n_known(const prepare::Options& options) {
    engine::Engine engine(options);
    const text::Tokenizer& tokenizer = engine.tokenizer();
    std::string text;
    add_text(&text);
    std::array<int, kFacts.size()> begin = {}, end = {};
    for (size_t i = 0; i < kFacts.size(); ++i) {
      text += std::string("\n\nQuestion: ") + kFacts[i].question + "\nAnswer:";
      begin[i] = static_cast<int>(tokenizer.encode(text).size());
      text += std::string(" ") + kFacts[i].answer;
      end[i] = static_cast<int>(tokenizer.encode(text).size());
    }
    text += "\n\n" + std::string(tune::default_text().substr(20000, kBytesBehind));
    const std::vector<Token> tokens = tokenizer.encode(text);
    std::map<int, Token> wanted;  // by the position before each token of an answer
    for (size_t i = 0; i < kFacts.size(); ++i) {
      for (int at = begin[i]; at < end[i]; ++at) wanted[at - 1] = tokens[static_cast<size_t>(at)];
    }
    SaidNext observer(wanted);
    engine::Session session(engine);
    session.prefill(tokens, nullptr, &observer);
    int n = 0;
    for (size_t i = 0; i < kFacts.size(); ++i) {
      bool is_known = true;
      for (int at = begin[i] - 1; at + 1 < end[i]; ++at) {
        is_known = is_known && observer.said().at(at) == wanted.at(at);
      }
      n += is_known ? 1 : 0;
      std::printf("%s %s: %s\n", kFacts[i].question, kFacts[i].answer,
                  is_known ? "known" : "not known");
    }
    std::printf("%d of %zu in a text of %zu tokens\n", n, kFacts.size(), tokens.size());
    return n;
  }
};

TEST_F(DistantFacts, AreKnownWhereAPromptAttendsToAll) {
  EXPECT_GE(n_known(options(AttentionForm::kFull)), 6);
}

TEST_F(DistantFacts, AreKnownWhereTilesChooseByWeight) {
  EXPECT_GE(n_known(options(AttentionForm::kSparse)), 6);
}

TEST_F(DistantFacts, AreKnownWhereEachQueryChoosesAFifth) {
  EXPECT_GE(n_known(options(AttentionForm::kQuery)), 5);
}

// What no choice could lose would not show that others choose well.
TEST_F(DistantFacts, AreMostlyLostWhereBlocksChooseATwentieth) {
  prepare::Options blocks = options(AttentionForm::kBlock);
  blocks.prompts.attention_share = 5;
  EXPECT_LE(n_known(blocks), 3);
}

}  // namespace
}  // namespace troika
