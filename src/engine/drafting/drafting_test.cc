#include "engine/drafting/drafting.h"

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"
#include "tests/support/tiny_engine.h"

namespace troika::engine {
namespace {

class Drafting : public testing::Test {
 protected:
  // Returns the names of the sources that a kind stands for, joined by "+".
  std::string sources_of(const DraftOptions& draft) {
    const auto drafter = make_drafter(*tiny_.engine, {}, draft);
    if (drafter == nullptr) return "none";
    std::string names;
    for (const auto& source : drafter->statistics().sources) {
      names += (names.empty() ? "" : "+") + source.name;
    }
    return names;
  }
  std::string refusal_of(const DraftOptions& draft) {
    return test::message_of<UsageError>([&] { sources_of(draft); });
  }

  const test_support::TinyEngine tiny_;
};

TEST_F(Drafting, KindsAreJoinedFromSources) {
  EXPECT_EQ(sources_of({.kind = "none"}), "none");
  EXPECT_EQ(sources_of({.kind = "context"}), "sam+reuse");
  EXPECT_EQ(sources_of({.kind = "context", .coverage = 10}), "sam+reuse+calibrated");
  EXPECT_EQ(sources_of({.kind = "lookup+sam"}), "lookup+sam");
  EXPECT_EQ(sources_of({.kind = "context+history"}), "sam+reuse+history");
  EXPECT_EQ(sources_of({.kind = "lookup+context"}), "lookup+sam+reuse");
  const auto texts = std::make_shared<const draft::Texts>();
  EXPECT_EQ(sources_of({.kind = "sam", .history = texts}), "sam+history");
  EXPECT_EQ(sources_of({.kind = "history+sam", .history = texts}), "history+sam");
}

TEST_F(Drafting, WhatMakesNoSenseIsRefused) {
  for (const char* kind : {"", "sam+", "+sam", "none+sam", "sam+model:x", "contexts"}) {
    EXPECT_NE(refusal_of({.kind = kind}).find("is no kind of draft"), std::string::npos) << kind;
  }
  for (const char* kind : {"sam+sam", "context+sam", "reuse+context", "history+sam+history"}) {
    EXPECT_NE(refusal_of({.kind = kind}).find("twice"), std::string::npos) << kind;
  }
  for (const char* kind : {"none", "context"}) {
    EXPECT_NE(refusal_of({.kind = kind, .fixed_width = 999}).find("‹draft-width› 999"),
              std::string::npos);
    EXPECT_NE(refusal_of({.kind = kind, .coverage = 101}).find("‹calibrate-drafts› 101"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace troika::engine
