// The C API over Engine, Session and generate: errors become codes and sentences.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/option_names.h"
#include "engine/chat.h"
#include "engine/drafting/drafting.h"
#include "engine/engine.h"
#include "engine/generate.h"
#include "engine/session.h"
#include "prepare/plan/make_plan.h"
#include "troika/troika.h"

struct troika_engine {
  troika_engine(troika::prepare::Options wanted, troika::engine::DraftOptions wanted_draft)
      : options(std::move(wanted)), draft(std::move(wanted_draft)), engine(options) {}
  troika::prepare::Options options;
  troika::engine::DraftOptions draft;
  troika::engine::Engine engine;
  // What guesses for the first session. It is made when the model is opened, so that a wrong name
  // is refused there.
  std::mutex first_mutex;
  std::unique_ptr<troika::draft::Drafter> first;

  std::unique_ptr<troika::draft::Drafter> take_drafter() {
    {
      const std::lock_guard<std::mutex> lock(first_mutex);
      if (first != nullptr) return std::move(first);
    }
    return troika::engine::make_drafter(engine, options, draft);
  }
};

struct troika_session {
  explicit troika_session(troika_engine& of)
      : session(of.engine, troika::engine::Reuse::kAll), drafter(of.take_drafter()) {}
  troika::engine::Session session;
  std::unique_ptr<troika::draft::Drafter> drafter;  // null: no guesses
  std::atomic<bool> cancel{false};
};

namespace {

using troika::Error;
using troika::UsageError;

bool goes_on(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

// Writes a message, in whole characters, without allocating. Where it is too long it is cut in its
// middle, because what to do stands at the end.
void write_message(std::string_view text, troika_error* error) {
  constexpr size_t kMostBytes = sizeof(error->message) - 1;
  constexpr std::string_view kGap = " ... ";
  size_t n_first = text.size(), last = text.size();
  if (text.size() > kMostBytes) {
    n_first = (kMostBytes - kGap.size()) / 2;
    last -= n_first;
    while (n_first > 0 && goes_on(text[n_first])) --n_first;
    while (last < text.size() && goes_on(text[last])) ++last;
  }
  char* to = error->message;
  to += text.copy(to, n_first);
  if (last < text.size()) to += kGap.copy(to, kGap.size());
  to += text.substr(last).copy(to, kMostBytes);
  *to = '\0';
}

troika_code fail(troika_error* error, troika_code code, const char* message) {
  if (error != nullptr) {
    error->code = code;
    write_message(message, error);
  }
  return code;
}

// Lists the options that are fields of troika_engine_options or troika_generate_options.
constexpr std::pair<std::string_view, std::string_view> kFields[] = {
    {"threads", "threads"},
    {"context", "context"},
    {"kv", "kv"},
    {"activations", "activations"},
    {"draft", "draft"},
    {"temp", "temperature"},
    {"top-k", "top_k"},
    {"top-p", "top_p"},
    {"min-p", "min_p"},
    {"repeat-penalty", "repetition_penalty"},
    {"frequency-penalty", "frequency_penalty"},
    {"presence-penalty", "presence_penalty"},
    {"chat", "chat"},
};

// Returns the field that is this option. What is no field is an option of the program alone.
std::string field_of(std::string_view option) {
  for (const auto& [name, field] : kFields) {
    if (name == option) return std::string(field);
  }
  return fmt::format("the program's option '{}'", option);
}

troika_code fail(troika_error* error, troika_code code, const std::exception& e) {
  if (error == nullptr) return code;
  try {
    const std::string message = troika::with_option_names(e.what(), field_of);
    return fail(error, code, troika::without_flags(message).c_str());
  } catch (const std::exception&) {  // there was no memory to put it into a caller's words
    return fail(error, code, e.what());
  }
}

// Runs a body that may throw and returns its code.
template <typename Body>
troika_code guarded(troika_error* error, Body&& body) {
  try {
    const troika_code code = body();
    if (code == TROIKA_OK && error != nullptr) *error = {};
    return code;
  } catch (const UsageError& e) {
    return fail(error, TROIKA_USAGE, e);
  } catch (const Error& e) {
    return fail(error, TROIKA_ERROR, e);
  } catch (const std::bad_alloc&) {
    return fail(error, TROIKA_ERROR,
                "There is not enough memory. Use a smaller context, fewer threads or a smaller "
                "model, or end other programs.");
  } catch (const std::exception& e) {
    return fail(error, TROIKA_ERROR, e);
  } catch (...) {  // nothing here throws so, but a callback of a program in C++ may
    return fail(
        error, TROIKA_ERROR,
        "The callback threw what is no std::exception. Let it return 0 to stop the answer.");
  }
}

void require(bool condition, const char* message) {
  if (!condition) throw UsageError(message);
}

// Are the least sizes of structs. What stands behind them may be missing, because zero in it stands
// for what the library does without it. Later fields stand at the end, and never in the gap that a
// struct may have there, which `size` counts already.
constexpr size_t kLeastEngineOptions = offsetof(troika_engine_options, draft);
constexpr size_t kLeastGenerateOptions = offsetof(troika_generate_options, seed);
constexpr size_t kLeastResult = offsetof(troika_result, passes);

// Refuses a size that no header which this library knows gives to the struct. Sizes of structs are
// multiples of their alignment, so that none ends within a field that is aligned so.
template <typename Struct>
void check_size(const Struct* given, size_t least_bytes, const char* name) {
  const bool is_whole = given->size % alignof(Struct) == 0;
  if (is_whole && given->size >= least_bytes && given->size <= sizeof(Struct)) return;
  throw UsageError(
      fmt::format("The size of {0} is {1}; it must be at least {2}, and this library knows up to "
                  "{3}. Set the field to sizeof({0}) before the call, and build with a header that "
                  "is no newer than the library.",
                  name, given->size, least_bytes, sizeof(Struct)));
}

// Reads a struct from a caller whose version of it may be shorter: missing fields become zero.
template <typename Struct>
Struct read_struct(const Struct* given, size_t least_bytes, const char* name) {
  check_size(given, least_bytes, name);
  Struct result = {};
  std::memcpy(static_cast<void*>(&result), given, given->size);
  return result;
}

// Writes as much of a struct as the caller's version of it has.
template <typename Struct>
void write_struct(Struct whole, Struct* result) {
  whole.size = result->size;
  std::memcpy(static_cast<void*>(result), &whole, whole.size);
}

// Refuses a chat with a model that has no template, of which no field could give one.
void check_chat(const troika::engine::Engine& engine, bool is_chat) {
  if (!is_chat || !engine.tokenizer().vocabulary().chat_template.empty()) return;
  throw Error(fmt::format(
      "{}: the file has no chat template, so it is probably not a chat model. Set chat to 0, and "
      "write into the prompt all that the model is to see.",
      engine.file().path()));
}

troika::engine::SamplerOptions sampler_options(const troika_generate_options& options) {
  troika::engine::SamplerOptions sampler;
  sampler.temperature = options.temperature;
  sampler.top_k = options.top_k;
  sampler.top_p = options.top_p;
  sampler.min_p = options.min_p;
  sampler.repetition_penalty = options.repetition_penalty;
  sampler.frequency_penalty = options.frequency_penalty;
  sampler.presence_penalty = options.presence_penalty;
  sampler.seed = options.seed;
  return sampler;
}

// Returns the defaults of `troika run`, with seed 0.
troika_generate_options default_generate_options() {
  const troika::engine::SamplerOptions d;
  troika_generate_options options = {};
  options.size = sizeof(options);
  options.max_tokens = -1;
  options.temperature = d.temperature;
  options.top_k = d.top_k;
  options.top_p = d.top_p;
  options.min_p = d.min_p;
  options.repetition_penalty = d.repetition_penalty;
  options.frequency_penalty = d.frequency_penalty;
  options.presence_penalty = d.presence_penalty;
  return options;
}

troika_stop to_c(troika::engine::Stop stop) {
  using troika::engine::Stop;
  switch (stop) {
    case Stop::kEnd:
      return TROIKA_STOP_END;
    case Stop::kContext:
      return TROIKA_STOP_CONTEXT;
    case Stop::kCancelled:
      return TROIKA_STOP_CANCELLED;
    case Stop::kLength:
    case Stop::kString:
      return TROIKA_STOP_LENGTH;
  }
  return TROIKA_STOP_LENGTH;
}

}  // namespace

const char* troika_version(void) { return TROIKA_VERSION; }

troika_code troika_engine_open(const char* path, const troika_engine_options* options,
                               troika_engine** engine, troika_error* error) {
  return guarded(error, [&] {
    require(engine != nullptr, "troika_engine_open needs a place for the engine.");
    *engine = nullptr;
    require(path != nullptr, "troika_engine_open needs the path of a GGUF file.");
    troika::prepare::Options o;
    o.model.file = path;
    troika_engine_options given = {};
    if (options != nullptr) {
      given = read_struct(options, kLeastEngineOptions, "troika_engine_options");
    }
    o.lanes.n_threads = given.threads;
    o.memory.context = given.context;
    if (given.kv != nullptr) o.memory.kv_type = troika::prepare::kv_type_from_name(given.kv);
    if (given.activations != nullptr) {
      o.activations = troika::plan::activations_from_name(given.activations);
    }
    troika::engine::DraftOptions draft;
    if (given.draft != nullptr) draft.kind = given.draft;
    auto made = std::make_unique<troika_engine>(o, draft);
    made->first = make_drafter(made->engine, o, draft);
    *engine = made.release();
    return TROIKA_OK;
  });
}

void troika_engine_close(troika_engine* engine) { delete engine; }

int32_t troika_engine_context(const troika_engine* engine) {
  return engine != nullptr ? engine->engine.plan().context : 0;
}

int32_t troika_engine_vocabulary(const troika_engine* engine) {
  return engine != nullptr ? engine->engine.blueprint().n_vocab : 0;
}

troika_code troika_tokenize(const troika_engine* engine, const char* text, size_t text_bytes,
                            int add_special, int parse_special, int32_t* tokens, size_t capacity,
                            size_t* n_tokens, troika_error* error) {
  return guarded(error, [&] {
    require(engine != nullptr && (text != nullptr || text_bytes == 0) && n_tokens != nullptr,
            "troika_tokenize needs an engine, a text and a place for the number of tokens.");
    require(tokens != nullptr || capacity == 0, "troika_tokenize needs a place for the tokens.");
    const std::vector<int32_t> all = engine->engine.tokenizer().encode(
        {text, text_bytes}, {.add_special = add_special != 0, .parse_special = parse_special != 0});
    *n_tokens = all.size();
    if (all.size() > capacity) {
      return fail(error, TROIKA_TOO_SMALL, "The buffer is too small for the tokens of this text.");
    }
    std::copy(all.begin(), all.end(), tokens);
    return TROIKA_OK;
  });
}

troika_code troika_detokenize(const troika_engine* engine, const int32_t* tokens, size_t n_tokens,
                              char* text, size_t capacity, size_t* n_bytes, troika_error* error) {
  return guarded(error, [&] {
    require(engine != nullptr && (tokens != nullptr || n_tokens == 0) && n_bytes != nullptr,
            "troika_detokenize needs an engine, tokens and a place for the length.");
    require(text != nullptr || capacity == 0, "troika_detokenize needs a place for the text.");
    const troika::text::Tokenizer& tokenizer = engine->engine.tokenizer();
    for (size_t i = 0; i < n_tokens; ++i) {
      require(tokenizer.is_token(tokens[i]), "One of the numbers is no token of this model.");
    }
    const std::string whole = tokenizer.decode({tokens, n_tokens});
    *n_bytes = whole.size();
    if (whole.size() + 1 > capacity) {
      return fail(error, TROIKA_TOO_SMALL, "The buffer is too small for the text of these tokens.");
    }
    std::memcpy(text, whole.c_str(), whole.size() + 1);
    return TROIKA_OK;
  });
}

troika_code troika_session_open(troika_engine* engine, troika_session** session,
                                troika_error* error) {
  return guarded(error, [&] {
    require(engine != nullptr && session != nullptr,
            "troika_session_open needs an engine and a place for the session.");
    *session = nullptr;
    *session = new troika_session(*engine);
    return TROIKA_OK;
  });
}

void troika_session_close(troika_session* session) { delete session; }

troika_code troika_default_generate_options(troika_generate_options* options, troika_error* error) {
  return guarded(error, [&] {
    require(options != nullptr, "troika_default_generate_options needs a place for the options.");
    check_size(options, kLeastGenerateOptions, "troika_generate_options");
    write_struct(default_generate_options(), options);
    return TROIKA_OK;
  });
}

troika_code troika_generate(troika_session* session, const char* prompt, size_t prompt_bytes,
                            const troika_generate_options* options, troika_text_callback callback,
                            void* user, troika_result* result, troika_error* error) {
  return guarded(error, [&] {
    require(session != nullptr && (prompt != nullptr || prompt_bytes == 0),
            "troika_generate needs a session and a prompt.");
    session->cancel = false;  // before any work, so that a cancel which comes meanwhile holds
    const troika_generate_options o =
        options != nullptr ? read_struct(options, kLeastGenerateOptions, "troika_generate_options")
                           : default_generate_options();
    if (result != nullptr) check_size(result, kLeastResult, "troika_result");
    require(o.max_tokens >= -1, "max_tokens is -1 (no limit), 0 or more.");
    troika::engine::Engine& engine = session->session.engine();
    const std::string_view text(prompt, prompt_bytes);
    check_chat(engine, o.chat != 0);
    const std::vector<int32_t> tokens =
        o.chat != 0 ? troika::engine::ChatFormat(engine).prompt({{"user", std::string(text)}})
                    : engine.tokenizer().encode(text);
    troika::engine::Sampler sampler(sampler_options(o));
    troika::engine::GenerateOptions generate_options;
    generate_options.most_tokens = o.max_tokens;
    generate_options.cancel = &session->cancel;
    generate_options.drafter = session->drafter.get();
    // Until the next prompt other sessions may have the room of this text.
    struct Rest {
      troika::engine::Session& session;
      ~Rest() { session.rest(); }
    } const rest{session->session};
    bool is_refused = false;  // the callback wants no more text
    const troika::engine::Generated g = troika::engine::generate(
        session->session, tokens, sampler, generate_options, [&](std::string_view fragment, int) {
          if (callback == nullptr || is_refused) return;
          is_refused = callback(user, fragment.data(), fragment.size()) == 0;
          if (is_refused) session->cancel = true;
        });
    if (result != nullptr) {
      write_struct({sizeof(troika_result), to_c(g.stop), static_cast<int32_t>(g.n_prompt),
                    static_cast<int32_t>(g.n_computed), static_cast<int32_t>(g.tokens.size()),
                    g.prefill_seconds, g.decode_seconds, g.n_steps},
                   result);
    }
    return TROIKA_OK;
  });
}

void troika_session_cancel(troika_session* session) {
  if (session != nullptr) session->cancel = true;
}
