#include "common/checkpoint/safetensors/transfer.hpp"

#include <cerrno>

namespace ultra::checkpoint {

TransferResult transfer_all(
    std::size_t bytes, const std::function<ssize_t(std::size_t done, std::size_t left)>& once) {
  TransferResult result;
  while (result.done < bytes) {
    const ssize_t moved = once(result.done, bytes - result.done);
    if (moved > 0) {
      result.done += static_cast<std::size_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      result.error = moved == 0 ? 0 : errno;
      break;
    }
  }
  return result;
}

}  // namespace ultra::checkpoint
