#include "common/comm/backend/mpi/watch/status_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace ultra::comm::mpi {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLongest = 400;

}  // namespace

StatusPage::StatusPage() : descriptor_(memfd_create("rank status", MFD_CLOEXEC)) {
  if (descriptor_ < 0) return;
  void* const memory =
      ftruncate(descriptor_, kPage) == 0
          ? mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, 0)
          : MAP_FAILED;
  if (memory != MAP_FAILED) memory_ = static_cast<char*>(memory);
}

StatusPage::~StatusPage() {
  if (memory_ != nullptr) munmap(memory_, kPage);
  if (descriptor_ >= 0) close(descriptor_);
}

void StatusPage::say(const std::string& text) {
  if (memory_ == nullptr) return;
  // A reader may see the beginning of one text and the end of another: never beyond the last zero.
  const std::size_t length = std::min(text.size(), kLongest);
  std::memcpy(memory_, text.data(), length);
  std::memset(memory_ + length, 0, kLongest - length);
}

StatusPage::Reader::Reader(int process, int descriptor) {
  const int file =
      open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return;
  void* const memory = mmap(nullptr, kPage, PROT_READ, MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED) return;
  memory_ = std::shared_ptr<const char[]>(static_cast<const char*>(memory), [](const char* page) {
    munmap(const_cast<char*>(page), kPage);
  });
}

std::string StatusPage::Reader::text() const {
  if (!memory_) return {};
  return {memory_.get(), strnlen(memory_.get(), kLongest)};
}

}  // namespace ultra::comm::mpi
