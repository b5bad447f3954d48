// Without liburing: files are read and written by threads.

#include "common/base/errors.hpp"
#include "common/storage/backend/uring/uring_file.hpp"

namespace ultra::storage {

bool uring_works() { return false; }

std::unique_ptr<AsyncFile> uring_file(std::unique_ptr<ScratchFile>) {
  throw ConfigError(
      "this build has no io_uring: install liburing-dev and configure again, or use threads.");
}

}  // namespace ultra::storage
