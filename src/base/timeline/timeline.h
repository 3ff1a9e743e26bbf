// Draws a trace as a picture for people.
#pragma once

#include <string>

#include "base/trace.h"

namespace troika {

// The text that stands above the picture.
struct TimelineTitle {
  std::string what;      // what ran: the model
  std::string how = {};  // machine and options
  // What the picture is about. Empty: the trace tells how long the prompt is, and how many steps
  // there are.
  std::string about = {};
  std::string numbers = "blocks of the model";  // what the events' `block` counts
};

// Returns "a prompt of 739 tokens, then 3 steps of the answer"; what there is none of is left out.
std::string passes_text(int n_prompt_tokens, int n_steps);

// Returns an SVG with a row for each lane, which has a box for each task and the lane's busy share.
// The time in which a lane waited is hatched, from the start of the first task of all lanes to the
// end of the last one, and prompts and steps are marked. Words say what colours mean. Tasks of the
// same kind are numbered where their numbers differ.
std::string timeline_svg(const Trace& trace, const TimelineTitle& title);

}  // namespace troika
