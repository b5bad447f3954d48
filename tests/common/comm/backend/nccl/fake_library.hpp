#pragma once
/// @file
/// The library that stands in NCCL's place in tests.

#include <dlfcn.h>

#include <filesystem>
#include <string>

#include "common/base/errors.hpp"
#include "tests/fakes/nccl/fake_nccl.hpp"

namespace ultra::test {

/// @brief Its file, beside the test's executable.
[[nodiscard]] inline std::string fake_nccl_path() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fake_nccl.so";
}

/// @brief What a test says to the library; forgotten at the end.
class FakeNccl {
 public:
  FakeNccl() : file_(dlopen(fake_nccl_path().c_str(), RTLD_NOW | RTLD_LOCAL)) {
    ensure(file_ != nullptr, "the fake library is built with the tests");
    reset();
  }
  FakeNccl(const FakeNccl&) = delete;
  FakeNccl& operator=(const FakeNccl&) = delete;
  ~FakeNccl() { reset(); }

  void set_fault(FakeNcclFault fault) const {
    function<decltype(fake_nccl_set_fault)>("fake_nccl_set_fault")(fault);
  }
  [[nodiscard]] int calls(const char* name) const {
    return function<decltype(fake_nccl_calls)>("fake_nccl_calls")(name);
  }
  [[nodiscard]] int open_comms() const {
    return function<decltype(fake_nccl_open_comms)>("fake_nccl_open_comms")();
  }
  void reset() const { function<decltype(fake_nccl_reset)>("fake_nccl_reset")(); }

 private:
  template <class Function>
  [[nodiscard]] Function* function(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(file_, name));
  }

  void* file_;
};

}  // namespace ultra::test
