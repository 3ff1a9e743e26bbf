// A trace as a picture for people.
#pragma once

#include <string>

#include "base/trace.h"

namespace troika {

// What stands above the picture.
struct TimelineTitle {
  std::string what;  // ran: the model
  std::string how;   // machine and options; may be empty
};

// A row for each lane with a box for each task and its busy share; colours are said in words, time
// between its own tasks in which a lane waited is hatched, prompts and steps are marked. SVG.
std::string timeline_svg(const Trace& trace, const TimelineTitle& title);

}  // namespace troika
