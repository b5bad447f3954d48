#include "common/comm/backend/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <mutex>
#include <type_traits>

#include "common/base/errors.hpp"
#include "common/comm/comm_error.hpp"

namespace ultra::comm::nccl {
namespace {

// The first version whose communicators need not block.
constexpr int kOldestVersion = 21400;

constexpr const char* kHint =
    "Install NCCL 2.14 or later and name its folder in LD_LIBRARY_PATH, or use --collectives ours.";

/// One thread at a time: what the first one's opening constructs has happened before the others'.
void* opened(const std::string& name) {
  static std::mutex opening;
  const std::scoped_lock lock(opening);
  if (void* const library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  const char* const error = dlerror();
  throw ConfigError(fmt::format("NCCL cannot be opened: {}. {}",
                                error == nullptr ? "no reason given" : error, kHint));
}

template <class Function>
void find(void* library, const std::string& file, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function != nullptr) return;
  throw ConfigError(fmt::format("{} has no function {}. {}", file, name, kHint));
}

}  // namespace

std::shared_ptr<const Library> Library::open(const std::string& name) {
  void* const file = opened(name);
  auto library = std::make_shared<Library>();
  library->name = name;
  find(file, name, library->get_version, "ncclGetVersion");
  int version = 0;
  library->get_version(&version);
  if (version < kOldestVersion) {
    throw ConfigError(fmt::format("{} is NCCL {}.{}: too old. {}", name, version / 1000,
                                  version % 1000 / 100, kHint));
  }
  find(file, name, library->get_unique_id, "ncclGetUniqueId");
  find(file, name, library->comm_init, "ncclCommInitRankConfig");
  find(file, name, library->comm_get_async_error, "ncclCommGetAsyncError");
  find(file, name, library->comm_abort, "ncclCommAbort");
  find(file, name, library->comm_destroy, "ncclCommDestroy");
  find(file, name, library->get_error_string, "ncclGetErrorString");
  find(file, name, library->get_last_error, "ncclGetLastError");
  find(file, name, library->group_start, "ncclGroupStart");
  find(file, name, library->group_end, "ncclGroupEnd");
  find(file, name, library->all_reduce, "ncclAllReduce");
  find(file, name, library->reduce, "ncclReduce");
  find(file, name, library->broadcast, "ncclBroadcast");
  find(file, name, library->all_gather, "ncclAllGather");
  find(file, name, library->reduce_scatter, "ncclReduceScatter");
  find(file, name, library->send, "ncclSend");
  find(file, name, library->receive, "ncclRecv");
  return library;
}

std::shared_ptr<const Library> Library::open_installed() {
  constexpr const char* kName = "libnccl.so.2";
  for (const char* const folder : {"", "/usr/local/cuda/lib64/", "/usr/local/cuda/lib/"}) {
    try {
      return open(std::string(folder) + kName);
    } catch (const ConfigError&) {
      continue;  // the first place's reason is told below
    }
  }
  return open(kName);
}

void Library::check(Result result, const std::string& call, Comm* comm) const {
  if (result == Result::kSuccess || result == Result::kInProgress) return;
  const char* const last = get_last_error(comm);
  throw CommError(fmt::format("{}: {}{}", call, get_error_string(result),
                              last == nullptr || *last == '\0' ? "" : fmt::format(" ({})", last)));
}

}  // namespace ultra::comm::nccl
