// A smaller model that guesses what a larger one will say (D6).
#pragma once

#include <memory>

#include "draft/source.h"
#include "engine/engine.h"
#include "engine/session.h"

namespace troika::engine {

class DraftModel : public draft::Source {
 public:
  // `options` are those of the large model, whose limit of memory holds for both together. Throws
  // Error where the file cannot be used, it has no room, or the two models' tokens differ.
  DraftModel(const Engine& large, const prepare::Options& options, const std::string& path);

  const char* name() const override { return "model"; }
  void reset() override { text_.clear(); }
  void observe(std::span<const Token> tokens) override;
  void heed(const std::atomic<bool>* cancel) override { cancel_ = cancel; }
  void propose(int most, draft::Tree* tree) override;
  bool takes_passes() const override { return true; }

  // For who wants to watch its passes.
  Session& session() { return *session_; }

 private:
  void catch_up();
  void compute_as_steps(std::span<const Token> tokens);

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<Token> text_;
  const std::atomic<bool>* cancel_ = nullptr;  // ends reading; null: nothing does
  size_t n_prefilled_ = 0;  // counts the tokens of its history that a prompt's passes computed
};

}  // namespace troika::engine
