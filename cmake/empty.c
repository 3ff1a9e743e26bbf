// A library needs a source of its own; this one consists of the rooms (install.cmake).
typedef int troika_no_code_here;
