#include "common/comm/backend/mpi/watch/process_watch.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>

#include "common/comm/backend/mpi/session.hpp"

namespace ultra::comm::mpi {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kLongest = 400;

constexpr auto kInterval = std::chrono::milliseconds(20);

struct Identity {
  std::array<char, 128> host;  // the running kernel and its process numbers' namespace
  int pid;
  int page;  // the descriptor of its status page
};

Identity own_identity(int page) {
  Identity own{};
  std::string host;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), host);
  host += ' ';
  std::array<char, 64> space{};
  if (readlink("/proc/self/ns/pid", space.data(), space.size() - 1) > 0) host += space.data();
  host.copy(own.host.data(), own.host.size() - 1);
  own.pid = getpid();
  own.page = page;
  return own;
}

int open_process(int pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0U)); }

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

ProcessWatch::ProcessWatch(MPI_Comm all) {
  int rank = 0;
  int size = 1;
  MPI_Comm_rank(all, &rank);
  MPI_Comm_size(all, &size);
  size_ = static_cast<std::size_t>(size);
  const Identity own = own_identity(page_.descriptor());
  std::vector<Identity> everybody(static_cast<std::size_t>(size));
  check(MPI_Allgather(&own, sizeof own, MPI_BYTE, everybody.data(), sizeof own, MPI_BYTE, all),
        "MPI_Allgather");
  for (int other = 0; other < size; ++other) {
    const Identity& identity = everybody[static_cast<std::size_t>(other)];
    if (other == rank || identity.host != own.host) continue;
    const int descriptor = open_process(identity.pid);
    if (descriptor >= 0) {
      watched_.push_back({.rank = other,
                          .pid = identity.pid,
                          .descriptor = descriptor,
                          .page = StatusPage::Reader(identity.pid, identity.page)});
    }
  }
}

ProcessWatch::~ProcessWatch() {
  for (const Watched& process : watched_) close(process.descriptor);
}

std::optional<ProcessWatch::Death> ProcessWatch::death() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_look_) return std::nullopt;
  next_look_ = now + kInterval;
  return death_now();
}

std::optional<ProcessWatch::Death> ProcessWatch::death_now() {
  std::vector<pollfd> descriptors;
  for (const Watched& process : watched_) {
    descriptors.push_back({.fd = process.descriptor, .events = POLLIN, .revents = 0});
  }
  if (poll(descriptors.data(), descriptors.size(), 0) <= 0) return std::nullopt;
  const auto dead =
      std::ranges::find_if(descriptors, [](const pollfd& d) { return d.revents != 0; });
  const auto& process = watched_[static_cast<std::size_t>(dead - descriptors.begin())];
  return Death{.rank = process.rank, .pid = process.pid};
}

bool ProcessWatch::has_died(int rank) const {
  const auto process = std::ranges::find(watched_, rank, &Watched::rank);
  if (process == watched_.end()) return false;
  pollfd descriptor{.fd = process->descriptor, .events = POLLIN, .revents = 0};
  return poll(&descriptor, 1, 0) > 0;
}

std::vector<RankActivity> ProcessWatch::activities() const {
  std::vector<RankActivity> activities(size_);
  for (const Watched& process : watched_) {
    RankActivity& activity = activities[static_cast<std::size_t>(process.rank)];
    activity.waits_in = process.page.text();
    activity.state =
        activity.waits_in.empty() ? RankActivity::State::kComputes : RankActivity::State::kWaits;
    activity.processor = processor_time(process.pid, process.pid);
  }
  return activities;
}

}  // namespace ultra::comm::mpi
