// The C interface of a module, and its exceptions.
//
// The page writes a question into question_buffer(), calls answer_question(), and reads
// answer_size() bytes there. WebAssembly of Debian's compilers has no exceptions: a throw ends the
// call through report_error, which the page provides, with the message; the page drops the module.
#include <cstdlib>
#include <exception>
#include <string>
#include <typeinfo>

#include "common/base/json.hpp"
#include "tools/site/figures/figure.hpp"

namespace {

std::string question;
std::string answer_text;

}  // namespace

extern "C" {

__attribute__((import_module("page"), import_name("report_error"), noreturn)) void report_error(
    const char* message);

__attribute__((export_name("question_buffer"))) char* question_buffer(unsigned bytes) {
  question.assign(bytes, ' ');
  return question.data();
}

__attribute__((export_name("answer_question"))) const char* answer_question() {
  answer_text = ultra::site::answer(ultra::Json::parse(question)).dump();
  return answer_text.data();
}

__attribute__((export_name("answer_size"))) unsigned answer_size() {
  return static_cast<unsigned>(answer_text.size());
}

// What a thread_local's first use calls: the only thread ends with the page, and needs no destructors.
int __cxa_thread_atexit(void (*)(void*), void*, void*) { return 0; }

// What a throw calls. Everything that the workbook throws is a std::exception, at its beginning.
void* __cxa_allocate_exception(unsigned long bytes) { return std::malloc(bytes); }
void __cxa_free_exception(void* exception) { std::free(exception); }
[[noreturn]] void __cxa_throw(void* thrown, std::type_info*, void (*)(void*)) {
  report_error(static_cast<std::exception*>(thrown)->what());
}
[[noreturn]] void __cxa_rethrow() { report_error("an error that was thrown again"); }
void* __cxa_begin_catch(void* thrown) { return thrown; }
void __cxa_end_catch() {}
int __gxx_personality_v0(...) { return 0; }

}  // extern "C"
