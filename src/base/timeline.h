// Draws a trace as a picture for people.
#pragma once

#include <string>

#include "base/trace.h"

namespace troika {

// The text that stands above the picture.
struct TimelineTitle {
  std::string what;  // what ran: the model
  std::string how;   // machine and options; may be empty
};

// Returns an SVG with a row for each lane, which has a box for each task and the lane's busy share.
// The time between a lane's tasks in which it waited is hatched, and prompts and steps are marked.
// Words say what colours mean.
std::string timeline_svg(const Trace& trace, const TimelineTitle& title);

}  // namespace troika
