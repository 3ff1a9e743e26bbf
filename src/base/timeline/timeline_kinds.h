// The colours and words of tasks in a timeline.
#pragma once

#include <span>
#include <string_view>

namespace troika {

struct TaskKind {
  std::string_view name;  // the name of its tasks in a trace
  const char* colour;     // "#rrggbb"
  const char* words;      // its first word stands in the boxes of its tasks
};
inline constexpr TaskKind kOtherTasks = {"", "#BBBBBB", "other tasks"};

// Returns all kinds but kOtherTasks, in the order of a legend.
std::span<const TaskKind> task_kinds();
// Returns the kind of the tasks with this name; kOtherTasks for one that is not known.
const TaskKind& task_kind(std::string_view name);

}  // namespace troika
