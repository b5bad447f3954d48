#include "common/storage/storage.hpp"

#include <utility>

#include "common/base/errors.hpp"
#include "common/storage/backend/uring/uring_file.hpp"
#include "common/storage/pool_file.hpp"

namespace ultra::storage {

std::string_view to_string(Backend backend) {
  return backend == Backend::kIoUring ? "io_uring" : "threads";
}

Backend file_backend() { return uring_works() ? Backend::kIoUring : Backend::kThreads; }

std::unique_ptr<AsyncFile> open_scratch_file(const std::filesystem::path& folder,
                                             std::uint64_t bytes, Backend backend) {
  auto file = std::make_unique<ScratchFile>(folder, bytes);
  return backend == Backend::kIoUring ? uring_file(std::move(file)) : pool_file(std::move(file));
}

}  // namespace ultra::storage
