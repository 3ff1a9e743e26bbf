// The papers whose figures 'troika reproduce' shows: one row for each, with all that is done for
// it.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/timeline/timeline.h"
#include "base/trace.h"
#include "papers/hetero/measure_hetero.h"
#include "papers/micro/micro.h"
#include "papers/npu/measure_npu.h"
#include "papers/test_rows.h"

namespace troika::cli {

struct ReproduceFlags {
  std::string what;
  std::string phones = "phones";
  std::string timeline, picture;
  papers::MeasureNpuOptions measure;
  papers::MeasureHeteroOptions hetero;
  std::string tasks, draft_model;
  bool write = false;
  bool json = false;
};

// What was measured on this machine.
struct MeasuredHere {
  std::function<void(papers::TestReport*)> fill;  // fills the report's column; empty: has none
  std::function<nlohmann::ordered_json()> to_json;
  std::function<void()> print;
};

// What a paper has none of is null.
struct PaperReport {
  const char* name = nullptr;   // as in plan::kPapers
  const char* about = nullptr;  // ends the sentence of --help: "the test rows of that paper..."
  papers::TestReport (*simulate)(const papers::PhoneFolder&) = nullptr;
  // Returns the report with what is shown beside it.
  nlohmann::ordered_json (*to_json)(const papers::PhoneFolder&,
                                    const papers::TestReport&) = nullptr;
  // Prints what is shown beside the report.
  void (*print_more)(const papers::PhoneFolder&) = nullptr;
  MeasuredHere (*measure)(const papers::PhoneFolder&, const ReproduceFlags&) = nullptr;
  const std::vector<std::string>* timeline_rows = nullptr;
  TimelineTitle (*trace)(const papers::PhoneFolder&, Trace*) = nullptr;
  std::string (*picture)(const papers::PhoneFolder&) = nullptr;
};

// Returns the rows in the order in which they are shown.
std::span<const PaperReport> paper_reports();

}  // namespace troika::cli
