#include "papers/micro/micro.h"

#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/error.h"
#include "tests/support/json_holes.h"
#include "tests/support/repository.h"
#include "tests/support/temp_folder.h"

namespace troika::papers {
namespace {

const std::string kMicroPhones = test::repository_file("phones");

TEST(Micro, V2_TheSplitFollowsFromTheIdsAlone) {
  const std::vector<std::string> names = {"nf001", "nf005", "nf009", "nf013", "nf017", "nf021"};
  const std::vector<size_t> first = held_out(names);
  ASSERT_EQ(first.size(), 2u);
  std::vector<std::string> turned(names.rbegin(), names.rend());
  std::set<std::string> a, b;
  for (const size_t i : first) a.insert(names[i]);
  for (const size_t i : held_out(turned)) b.insert(turned[i]);
  EXPECT_EQ(a, b);
  EXPECT_TRUE(held_out({"hf001", "hf002"}).empty());
}

TEST(Micro, WhatIsInsideARangeHasNoErrorWhateverItsSign) {
  plan::PublishedValue value;
  value.low = -5.0;
  value.high = 5.0;
  const auto error = [&](double simulated) {
    return MicroRow{nullptr, &value, "", Split::kNone, simulated}.error();
  };
  for (const double simulated : {-5.0, -1.0, 0.0, 5.0}) EXPECT_EQ(error(simulated), 0.0);
  EXPECT_LT(error(-6.0), 0.0);
  EXPECT_GT(error(6.0), 0.0);
}

TEST(Micro, V2_EveryNumberOfEveryCalibrationRowIsInTheReportOnce) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  const MicroReport report = simulate_micro(folder);
  std::set<const plan::PublishedValue*> seen;
  for (const MicroRow& row : report.rows) {
    EXPECT_EQ(row.row->use, "calibrate") << row.row->id;
    EXPECT_TRUE(seen.insert(row.value).second) << row.row->id;
    EXPECT_FALSE(row.inputs.empty()) << row.row->id;
  }
  size_t n_values = 0;
  for (const plan::PublishedRow& row : folder.published) {
    if (row.use == "calibrate") n_values += row.values.size();
  }
  EXPECT_EQ(seen.size(), n_values);
}

// Returns what `file`, the text of simulated/micro.json, is refused for; empty: it gives a report.
std::string why_refused(const PhoneFolder& folder, const std::string& file) {
  const test::TempFolder temporary;
  test::write_whole(temporary.file("micro.json"), file);
  PhoneFolder with = folder;
  try {
    with.micro = plan::read_simulated(temporary.file("micro.json"));
    simulate_micro(with);
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Micro, V2_HolesOfTheFileAreSentences) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  const std::string whole = test::read_whole(kMicroPhones + "/simulated/micro.json");
  EXPECT_EQ(why_refused(folder, whole), "");
  for (const test::JsonHole& hole : test::json_holes(nlohmann::json::parse(whole), 2)) {
    const std::string problem = why_refused(folder, hole.rest.dump());
    EXPECT_TRUE(problem.empty() || problem.ends_with('.')) << hole.where << ": " << problem;
    if (hole.where == "/groups/*/stack") {
      EXPECT_NE(problem.find("names the stack ''"), std::string::npos) << problem;
    }
  }
}

TEST(Micro, V2_ARowThatNothingSimulatesHasItsReasonAlone) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  for (const char* together : {"range", "mean"}) {
    PhoneFolder without = folder;
    plan::SimulatedRow& row = without.micro.groups.at(0).rows.at(0);
    row.terms.clear();
    row.reason = "nobody can";
    row.together = together;
    const MicroReport report = simulate_micro(without);
    EXPECT_EQ(report.rows.at(0).row->id, row.id);
    EXPECT_FALSE(report.rows.at(0).simulated.has_value());
    EXPECT_EQ(report.rows.at(0).split, Split::kNone);
  }
}

TEST(Micro, V2_TheFilesHoldWhatFittingGives) {
  PhoneFolder folder = read_phone_folder(kMicroPhones);
  PhoneFolder fitted = folder;
  fit_micro(fitted);
  const auto compare = [](std::vector<plan::Field> a, std::vector<plan::Field> b) {
    for (size_t i = 0; i < a.size(); ++i) {
      const double value = a[i].constant->value;
      EXPECT_NEAR(b[i].constant->value, value, 1e-3 * value + 1e-9) << a[i].name;
      EXPECT_EQ(b[i].constant->source, a[i].constant->source) << a[i].name;
    }
  };
  compare(folder.phone.fields(), fitted.phone.fields());
  for (auto& [name, stack] : folder.stacks) {
    compare(stack.fields(), fitted.stacks.at(name).fields());
  }
}

TEST(Micro, V2_HeldOutRowsAreInNoSourceOfAFit) {
  PhoneFolder folder = read_phone_folder(kMicroPhones);
  const MicroReport report = simulate_micro(folder);
  std::set<std::string> held, used;
  for (const MicroRow& row : report.rows) {
    if (row.split == Split::kHeldOut) held.insert(row.row->id);
    if (row.split == Split::kFit || row.split == Split::kTaken) used.insert(row.row->id);
  }
  EXPECT_GE(held.size(), 10u);
  const auto check = [&](const std::vector<plan::Field>& fields) {
    for (const plan::Field& field : fields) {
      if (plan::source_kind(field.constant->source) != plan::SourceKind::kFitted &&
          plan::source_kind(field.constant->source) != plan::SourceKind::kRows) {
        continue;
      }
      for (const std::string& id : plan::source_rows(field.constant->source)) {
        EXPECT_TRUE(!held.contains(id) || used.contains(id)) << field.name << " names " << id;
      }
    }
  };
  check(folder.phone.fields());
  for (auto& [name, stack] : folder.stacks) check(stack.fields());
}

// A constant that no law reads simulates nothing, so that its row has no error of zero.
TEST(Micro, V2_ARowWhoseConstantNoLawReadsIsNotSimulated) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  const MicroReport report = simulate_micro(folder);
  int n_rows = 0;
  for (const MicroRow& row : report.rows) {
    if (row.row->id != "hf007") continue;
    ++n_rows;
    EXPECT_FALSE(row.simulated.has_value()) << row.row->id;
    EXPECT_TRUE(row.inputs.starts_with("no law reads it: ")) << row.inputs;
  }
  EXPECT_EQ(n_rows, 1);
}

// One paper measured flash, and its rows are fitted once.
TEST(Micro, V2_AllStacksReadFromTheFlashThatWasFitted) {
  PhoneFolder folder = read_phone_folder(kMicroPhones);
  const auto flash_of = [&](const char* stack) {
    std::map<std::string, double> values;
    for (const plan::Field& field : folder.stacks.at(stack).fields()) {
      const std::string name = field.name;
      if (name.starts_with("flash.")) values[name] = field.constant->value;
    }
    return values;
  };
  for (const char* paper : plan::kPapers) EXPECT_EQ(flash_of(paper), flash_of("powerinfer-2"));
}

// If a row alone sets a constant (as for the rate of the 8 Gen 3 in sd.npu), it cannot tell how
// well the constant fits.
TEST(Micro, V2_ARowThatSetsAConstantAloneIsTaken) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  const MicroReport report = simulate_micro(folder);
  std::map<std::string, Split> split;
  for (const MicroRow& row : report.rows) split[row.row->id] = row.split;
  EXPECT_EQ(split["df001"], Split::kTaken);
  EXPECT_EQ(split["df002"], Split::kTaken);
  EXPECT_EQ(split["df003"], Split::kHeldOut);
  EXPECT_EQ(split["df004"], Split::kNone);  // the row df004 is a bound
  EXPECT_EQ(split["df005"], Split::kTaken);
}

TEST(Micro, V2_TheErrorsAreSmall) {
  const PhoneFolder folder = read_phone_folder(kMicroPhones);
  const MicroReport report = simulate_micro(folder);
  EXPECT_LE(report.median_error(Split::kFit), 0.10);
  EXPECT_LE(report.median_error(Split::kHeldOut), 0.20);
  EXPECT_LT(report.n_fitted_constants, report.count(Split::kFit));
  for (const MicroRow& row : report.rows) {
    if (row.split != Split::kTaken) continue;
    EXPECT_NEAR(*row.error(), 0.0, 0.01) << row.row->id;
  }
}

}  // namespace
}  // namespace troika::papers
