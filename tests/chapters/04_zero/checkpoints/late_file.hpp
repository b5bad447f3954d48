#pragma once
/// @file
/// Storage that tests control: it does what was asked for as late as possible, and may fail.

#include "chapters/04_zero/offload/offload_options.hpp"
#include "common/storage/async_file.hpp"
#include "tests/support/toolbox.hpp"

namespace ultra::zero::test {

using namespace ultra::test;

/// @brief Moves bytes when a transfer is waited for, and not before; what nobody waits for never
/// moves.
///
/// Who computes with what is not there yet, or changes what is still to be written, gets wrong
/// numbers.
class LateFile : public storage::AsyncFile {
 public:
  /// @brief What happened, in order: "read 0 48", "waited read 0 48".
  using Log = std::vector<std::string>;

  explicit LateFile(std::uint64_t bytes, Log* log = nullptr) : memory_(bytes), log_(log) {}

  storage::Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    std::fill(out.begin(), out.end(), std::byte{0xFF});  // no number
    return late(fmt::format("read {} {}", offset, out.size()), [this, offset, out] {
      std::copy_n(memory_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
    });
  }

  storage::Transfer write_async(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return late(fmt::format("write {} {}", offset, bytes.size()), [this, offset, bytes] {
      std::ranges::copy(bytes, memory_.begin() + static_cast<std::ptrdiff_t>(offset));
    });
  }

  [[nodiscard]] std::uint64_t size() const override { return memory_.size(); }

 private:
  class Late : public storage::PendingTransfer {
   public:
    Late(std::function<void()> move, std::string name, Log* log)
        : move_(std::move(move)), name_(std::move(name)), log_(log) {}

    storage::TransferTimes wait() override {
      move_();
      if (log_ != nullptr) log_->push_back("waited " + name_);
      const auto now = storage::TransferTimes::Clock::now();
      return {.begin = now, .end = now};
    }

   private:
    std::function<void()> move_;
    std::string name_;
    Log* log_;
  };

  storage::Transfer late(const std::string& name, std::function<void()> move) {
    if (log_ != nullptr) log_->push_back(name);
    return storage::Transfer(std::make_unique<Late>(std::move(move), name, log_));
  }

  std::vector<std::byte> memory_;
  Log* log_;
};

/// @brief A storage whose read number `failing`, from 0, fails when it is waited for.
class FailingFile : public LateFile {
 public:
  FailingFile(std::uint64_t bytes, std::size_t failing) : LateFile(bytes), left_(failing) {}

  storage::Transfer read_async(std::uint64_t offset, std::span<std::byte> out) override {
    if (left_-- > 0) return LateFile::read_async(offset, out);
    return storage::Transfer(std::make_unique<Failing>());
  }

 private:
  struct Failing : storage::PendingTransfer {
    storage::TransferTimes wait() override { throw FileError("this disk is broken"); }
  };
  std::size_t left_;
};

/// @brief Settings whose storage is a LateFile.
inline OffloadSettings offload_late(Offload what, std::size_t least_block_bytes,
                                    LateFile::Log* log = nullptr) {
  OffloadSettings settings;
  settings.what = what;
  settings.least_block_bytes = least_block_bytes;
  settings.open = [log](std::uint64_t bytes) { return std::make_unique<LateFile>(bytes, log); };
  return settings;
}

}  // namespace ultra::zero::test
