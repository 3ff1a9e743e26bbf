/* Troika's C API: run language models (GGUF files) from any language that can call C.
 *
 * Every function that can fail returns a code; where `error` is given, it then holds a sentence
 * that says what happened and what to do. Nothing is thrown and nothing is printed. Nothing is
 * global but one handler of SIGBUS, which the first open model installs: a file that is cut off
 * while it is used becomes a sentence, and faults elsewhere go to the handler that was there
 * before. So the library stays in memory when it is unloaded. All text is UTF-8 and, unless a
 * length stands beside it, ends with a zero byte.
 *
 * Structs that later versions may lengthen begin with `size`, which the caller sets before each
 * call, of results too: {.size = sizeof(options)}. The library reads and writes no byte behind it,
 * so a caller that was built with an older header of the same library name goes on working.
 */
#ifndef TROIKA_TROIKA_H
#define TROIKA_TROIKA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum troika_code {
  TROIKA_OK = 0,
  TROIKA_ERROR = 1,     /* a file, the disk or memory failed, or a prompt does not fit */
  TROIKA_USAGE = 2,     /* an argument is wrong */
  TROIKA_TOO_SMALL = 3, /* a buffer is too small; the size that it needs was written */
} troika_code;

typedef struct troika_error {
  troika_code code;
  char message[1024];
} troika_error;

/* A model on this machine. Threads may share it: passes of its sessions take turns. */
typedef struct troika_engine troika_engine;
/* One conversation. One thread at a time may use it; any may call troika_session_cancel. */
typedef struct troika_session troika_session;

/* Returns a text as "0.1.0". */
const char* troika_version(void);

typedef struct troika_engine_options {
  size_t size;             /* the size of this struct, as the caller knows it */
  int32_t threads;         /* 0: all usable cores */
  int32_t context;         /* counts tokens; 0: what model and memory allow */
  const char* kv;          /* "f32", "f16", "q8_0"; null: f16 */
  const char* activations; /* "q8", "f32"; null: q8 */
  /* How sessions guess the next tokens, to verify several in one pass, which never changes the
   * text: "none", "context", "lookup", "sam", or "model:FILE" (each session then has
   * that model for itself); null: context */
  const char* draft;
} troika_engine_options;

/* Opens a model's file. `options` may be null. */
troika_code troika_engine_open(const char* path, const troika_engine_options* options,
                               troika_engine** engine, troika_error* error);
/* Frees the engine, whose sessions must be closed first. Null is allowed. */
void troika_engine_close(troika_engine* engine);

/* These return how many tokens the context and the vocabulary have; 0 for null. */
int32_t troika_engine_context(const troika_engine* engine);
int32_t troika_engine_vocabulary(const troika_engine* engine);

/* Writes the tokens of a text. `n_tokens` receives their number, even where `capacity` is too
 * small. `add_special` adds the model's begin token; with `parse_special`, "<|im_end|>" and the
 * like become tokens instead of text. */
troika_code troika_tokenize(const troika_engine* engine, const char* text, size_t text_bytes,
                            int add_special, int parse_special, int32_t* tokens, size_t capacity,
                            size_t* n_tokens, troika_error* error);
/* Writes the text of tokens; `n_bytes` receives its length without the zero byte at the end. The
 * tokens are taken for the beginning of a text, so that the space before its first word goes where
 * the vocabulary puts one there. Text that ends within a character ends with a part of its bytes.
 */
troika_code troika_detokenize(const troika_engine* engine, const int32_t* tokens, size_t n_tokens,
                              char* text, size_t capacity, size_t* n_bytes, troika_error* error);

troika_code troika_session_open(troika_engine* engine, troika_session** session,
                                troika_error* error);
/* Frees the session. Null is allowed. */
void troika_session_close(troika_session* session);

/* Is called with whole characters as they come. Returns 0 to stop the answer, and is then not
 * called again. */
typedef int (*troika_text_callback)(void* user, const char* text, size_t text_bytes);

typedef struct troika_generate_options {
  size_t size;        /* the size of this struct, as the caller knows it */
  int32_t max_tokens; /* -1: until the model ends its answer or the context is full */
  float temperature;  /* 0: always the most likely token */
  int32_t top_k;      /* 0: off */
  float top_p;        /* 1: off */
  float min_p;        /* 0: off */
  /* Penalties look at the last 64 tokens, the prompt's among them. */
  float repetition_penalty; /* 1: off */
  float frequency_penalty;
  float presence_penalty;
  uint64_t seed; /* the same seed gives the same text */
  int chat;      /* puts the prompt into the model's chat template as a user's message */
} troika_generate_options;

/* Writes the defaults of `troika run`, with seed 0, as far as `options->size` says, which must be
 * set. */
troika_code troika_default_generate_options(troika_generate_options* options, troika_error* error);

typedef enum troika_stop {
  TROIKA_STOP_END = 0,     /* the model ended its answer */
  TROIKA_STOP_LENGTH = 1,  /* the answer has max_tokens */
  TROIKA_STOP_CONTEXT = 2, /* the context is full */
  TROIKA_STOP_CANCELLED = 3,
} troika_stop;

typedef struct troika_result {
  size_t size; /* the size of this struct, as the caller knows it */
  troika_stop stop;
  int32_t prompt_tokens;
  int32_t computed_tokens; /* those that no session of the engine knew from before */
  int32_t generated_tokens;
  double prefill_seconds;
  double decode_seconds;
  int32_t passes; /* those behind the prompt: each gave a token, or more if guesses were right */
} troika_result;

/* Continues a prompt, which is the whole history: the beginning that it shares with what any
 * session of this engine has read lately, closed ones too, is not computed again, but for up to 32
 * of that prompt's last tokens. Whoever must not learn by the time, or by `computed_tokens`, what
 * others asked gets an engine of their own. `options`, `callback` and `result` may be null. */
troika_code troika_generate(troika_session* session, const char* prompt, size_t prompt_bytes,
                            const troika_generate_options* options, troika_text_callback callback,
                            void* user, troika_result* result, troika_error* error);

/* Makes a running troika_generate of this session return soon, whatever it is at, once the prompt's
 * text is made tokens of, which takes some seconds where it has tens of megabytes; does nothing
 * where none runs. Any thread may call it. Null is allowed. */
void troika_session_cancel(troika_session* session);

#ifdef __cplusplus
}
#endif

#endif
