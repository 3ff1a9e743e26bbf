// Reads a text with a model in windows, each from a fresh beginning, to compare two ways of
// computing it.
#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "engine/engine.h"
#include "lanes/lane.h"

namespace troika::tune {

inline constexpr int kReadTogether = 512;  // counts tokens that are read from a fresh beginning

// Takes out what says which neurons are computed, for who says that by other means: in this form.
void choose_form_alone(plan::FfnForm form, prepare::Options* options);

// Returns `asked`, changed so that one lane computes every token as steps are, by neuron or with
// all neurons, and no predictor leaves a neuron out. Throws UsageError for a virtual phone.
prepare::Options reading_options(const prepare::Options& asked, plan::FfnForm form);

struct Reading {
  double nll = 0.0;
  size_t n_tokens = 0;  // counts tokens that were predicted
  size_t n_read = 0;    // counts tokens that the observer has seen
  std::vector<text::Token> likeliest;

  double perplexity() const { return std::exp(nll / static_cast<double>(n_tokens)); }
};

// Throws Error where what the model computes are no numbers.
Reading read_tokens(engine::Engine& engine, std::span<const text::Token> tokens,
                    lanes::InputObserver* observer);
// Returns the share of positions with the same likeliest token. REQUIRES: both are of one text.
double agreement(const Reading& a, const Reading& b);

}  // namespace troika::tune
