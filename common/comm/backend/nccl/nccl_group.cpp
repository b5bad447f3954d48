#include "common/comm/backend/nccl/nccl_group.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <type_traits>
#include <utility>

#include "common/base/errors.hpp"
#include "common/comm/comm_error.hpp"
#include "common/comm/engine/roll_call.hpp"
#include "common/gpu/runtime.hpp"

namespace ultra::comm::nccl {
namespace {

template <std::size_t size>
void write(std::array<char, size>& to, std::string_view text) {
  to.fill('\0');
  std::ranges::copy(text.substr(0, size - 1), to.begin());
}

template <std::size_t size>
std::string_view text_of(const std::array<char, size>& from) {
  return {from.data()};
}

std::string host_name() {
  std::array<char, 64> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

template <class Requests>
bool all_ended(Requests& requests) {
  bool all = true;
  for (auto& request : requests) {
    if (request && request->test()) request.reset();
    all = all && !request;
  }
  return all;
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<Transport> control, Use use)
    : control_(std::move(control)), use_(std::move(use)) {}

NcclGroup::~NcclGroup() {
  if (comm_ == nullptr) return;
  if (stage_ == Stage::kConnected) {
    static_cast<void>(library_->comm_destroy(comm_));
  } else {
    abort();
  }
}

bool NcclGroup::advance(const Device& device) {
  if (stage_ == Stage::kNew) meet(device);
  if (stage_ == Stage::kMeeting && have_met()) connect(device);
  if (stage_ == Stage::kConnecting && is_enqueued()) stage_ = Stage::kConnected;
  if (stage_ == Stage::kAborted) {
    throw CommError("NCCL's group was given up when one of its operations failed");
  }
  return stage_ == Stage::kConnected || stage_ == Stage::kUnusable;
}

std::string NcclGroup::waits_for() const {
  if (stage_ == Stage::kConnecting) return "NCCL connects the GPUs";
  std::vector<int> missing;
  for (std::size_t member = 0; member < receives_.size(); ++member) {
    if (receives_[member]) missing.push_back(static_cast<int>(member));
  }
  return missing.empty() ? "it has not begun"
                         : have(missing, world_ranks(*control_), "not arrived");
}

void NcclGroup::open_library() {
  try {
    library_ = use_.library.empty() ? Library::open_installed() : Library::open(use_.library);
  } catch (const ConfigError& error) {
    why_not_ = error.what();
  }
}

void NcclGroup::meet(const Device& device) {
  stage_ = Stage::kMeeting;
  open_library();
  const auto size = static_cast<std::size_t>(control_->size());
  cards_ = std::make_shared<std::vector<Card>>(size);
  Card& own = (*cards_)[static_cast<std::size_t>(control_->rank())];
  write(own.why_not, why_not_);
  write(own.host, host_name());
  write(own.gpu, device.kind() == DeviceKind::kCuda ? device.runtime().properties().id : "");
  if (library_ && control_->rank() == 0) {
    library_->check(library_->get_unique_id(&own.id), "ncclGetUniqueId", nullptr);
  }
  receives_.resize(size);
  for (int member = 0; member < control_->size(); ++member) {
    if (member == control_->rank()) continue;
    Card& theirs = (*cards_)[static_cast<std::size_t>(member)];
    receives_[static_cast<std::size_t>(member)] =
        control_->irecv({std::as_writable_bytes(std::span(&theirs, 1)), {}, cards_}, member, kTag);
    sends_.push_back(control_->isend({std::as_bytes(std::span(&own, 1)), cards_}, member, kTag));
  }
}

bool NcclGroup::have_met() {
  const bool received = all_ended(receives_);
  return all_ended(sends_) && received;
}

/// Why NCCL cannot connect these members: the same on all of them. Empty when it can.
std::string NcclGroup::why_unusable() const {
  for (std::size_t a = 0; a < cards_->size(); ++a) {
    const Card& one = (*cards_)[a];
    const int rank = control_->world_rank(static_cast<int>(a));
    if (!text_of(one.why_not).empty())
      return fmt::format("rank {}: {}", rank, text_of(one.why_not));
    for (std::size_t b = a + 1; b < cards_->size(); ++b) {
      const Card& other = (*cards_)[b];
      if (one.gpu[0] == '\0' || one.gpu != other.gpu || one.host != other.host) continue;
      return fmt::format(
          "ranks {} and {} have the same GPU ({} of {}), which NCCL refuses. Start as many ranks "
          "as "
          "there are GPUs, use --collectives ours, or let ranks be threads: without mpirun, with "
          "--ranks.",
          rank, control_->world_rank(static_cast<int>(b)), text_of(one.gpu), text_of(one.host));
    }
  }
  return "";
}

void NcclGroup::connect(const Device& device) {
  if (const std::string why = why_unusable(); !why.empty()) {
    stage_ = Stage::kUnusable;
    if (use_.otherwise == Use::Otherwise::kInner) return;
    throw ConfigError(why);
  }
  stage_ = Stage::kConnecting;
  device_ = device;
  streams_ = device.runtime().make_streams(control_->world_rank(control_->rank()));
  static_cast<void>(streams_->queue(kRole));  // its GPU, for this thread
  Config config;
  library_->check(
      library_->comm_init(&comm_, control_->size(), cards_->front().id, control_->rank(), &config),
      "ncclCommInitRankConfig", nullptr);
}

bool NcclGroup::is_enqueued() const {
  Result state = Result::kSuccess;
  library_->check(library_->comm_get_async_error(comm_, &state), "ncclCommGetAsyncError", comm_);
  library_->check(state, "NCCL", comm_);
  return state == Result::kSuccess;
}

void NcclGroup::abort() {
  if (comm_ == nullptr) return;
  stage_ = Stage::kAborted;
  static_cast<void>(library_->comm_abort(std::exchange(comm_, nullptr)));
}

}  // namespace ultra::comm::nccl
