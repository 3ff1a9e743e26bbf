/* Continues a prompt with the C API:
 *
 *   generate MODEL.gguf PROMPT [TOKENS]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <troika/troika.h>

static int print_text(void* user, const char* text, size_t text_bytes) {
  (void)user;
  fwrite(text, 1, text_bytes, stdout);
  fflush(stdout);
  return 1; /* 0 would stop the answer */
}

int main(int argc, char** argv) {
  troika_error error;
  troika_engine* engine = NULL;
  troika_session* session = NULL;
  troika_result result = {.size = sizeof(result)};
  troika_generate_options options = {.size = sizeof(options)};

  if (argc < 3) {
    fprintf(stderr, "usage: %s MODEL.gguf PROMPT [TOKENS]\n", argv[0]);
    return 2;
  }
  if (troika_default_generate_options(&options, &error) != TROIKA_OK) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  options.max_tokens = argc > 3 ? atoi(argv[3]) : 32;
  options.temperature = 0.0f;

  if (troika_engine_open(argv[1], NULL, &engine, &error) != TROIKA_OK ||
      troika_session_open(engine, &session, &error) != TROIKA_OK ||
      troika_generate(session, argv[2], strlen(argv[2]), &options, print_text, NULL, &result,
                      &error) != TROIKA_OK) {
    fprintf(stderr, "%s\n", error.message);
    troika_session_close(session);
    troika_engine_close(engine);
    return 1;
  }
  printf("\n");
  fprintf(stderr, "%d tokens in %.2f s\n", (int)result.generated_tokens, result.decode_seconds);
  troika_session_close(session);
  troika_engine_close(engine);
  return 0;
}
