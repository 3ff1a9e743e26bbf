// The part of libcurl's interface that this program uses, declared here so that its headers need
// not be installed. The numbers are part of libcurl's stable interface (its curl.h): they have not
// changed since they exist, and cannot while the file is called libcurl.so.4.
#pragma once

#include <cstddef>

namespace troika::fetch::curl {

using Handle = void;  // CURL
struct List;          // curl_slist

// These are values of CURLcode.
constexpr int kOk = 0;
constexpr int kBadCertificate = 60;
constexpr int kNoCertificates = 77;

// These are values of CURLoption: numbers from 0 take a long, from 10000 a pointer, from 20000 a
// function.
constexpr int kWriteData = 10001;
constexpr int kUrl = 10002;
constexpr int kWriteFunction = 20011;
constexpr int kTimeout = 13;
constexpr int kUserAgent = 10018;
constexpr int kLowSpeedLimit = 19;
constexpr int kLowSpeedTime = 20;
constexpr int kHttpHeader = 10023;
constexpr int kHeaderData = 10029;
constexpr int kConnectTimeout = 78;
constexpr int kHeaderFunction = 20079;
constexpr int kNoSignal = 99;
constexpr int kProtocols = 181;
constexpr long kHttpAndHttps = 1 | 2;

// This is a value of CURLINFO.
constexpr int kResponseCode = 0x200002;

constexpr long kGlobalDefault = 3;

using TakeBytes = size_t (*)(char* bytes, size_t size, size_t n, void* user);

struct Api {
  int (*global_init)(long flags);
  Handle* (*easy_init)();
  void (*easy_reset)(Handle*);
  int (*easy_setopt)(Handle*, int option, ...);
  int (*easy_perform)(Handle*);
  int (*easy_getinfo)(Handle*, int info, ...);
  void (*easy_cleanup)(Handle*);
  const char* (*easy_strerror)(int code);
  List* (*slist_append)(List*, const char* text);
  void (*slist_free_all)(List*);
};

}  // namespace troika::fetch::curl
