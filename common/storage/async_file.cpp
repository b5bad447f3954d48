#include "common/storage/async_file.hpp"

#include <utility>

#include "common/base/errors.hpp"

namespace ultra::storage {

Transfer::Transfer(std::unique_ptr<PendingTransfer> pending) : pending_(std::move(pending)) {}

TransferTimes Transfer::wait() {
  ensure(pending(), "a transfer is waited for once");
  const auto pending = std::exchange(pending_, nullptr);
  return pending->wait();
}

}  // namespace ultra::storage
