// Shows reports of published figures as tables and as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "papers/micro/micro.h"
#include "papers/record.h"
#include "papers/test_rows.h"

namespace troika::cli {

void print_micro_table(const papers::MicroReport& report);
// Prints how well constants fit, and how far published rows are off that were held back.
void print_fit_summary(const papers::MicroReport& report);
// Prints how far test rows are off to which nothing was fitted.
void print_test_summary(const papers::MicroReport& report);
nlohmann::ordered_json report_json(const papers::MicroReport& report);

// Prints rows, orderings and medians, and what the record says of the report.
void print_report(const papers::TestReport& report, const std::vector<papers::Change>& record,
                  const std::string& name);
nlohmann::ordered_json report_json(const papers::TestReport& report);

}  // namespace troika::cli
