#include "common/comm/work.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "common/base/errors.hpp"
#include "common/comm/engine/group_state.hpp"
#include "common/comm/engine/progress_engine.hpp"
#include "common/comm/engine/wait_any.hpp"

namespace ultra {
namespace {

/// What the rank launches from now on comes after the operation, on a device too.
void join(const comm::Operation& operation) {
  if (const comm::DevicePart* const part = operation.device_part()) part->join();
}

}  // namespace

void Work::wait() {
  if (operation_) {
    engine_->wait(operation_);
    join(*operation_);
  }
  operation_.reset();
}

bool Work::done() {
  if (operation_ && engine_->poll(operation_)) {
    join(*operation_);
    operation_.reset();
  }
  return operation_ == nullptr;
}

PendingCall::PendingCall(std::shared_ptr<comm::GroupState> group,
                         std::shared_ptr<comm::Operation> operation)
    : group_(std::move(group)) {
  group_->pending = std::move(operation);
}

Work PendingCall::issue(bool background) {
  const std::shared_ptr<comm::GroupState> group = std::move(group_);
  if (!group) throw ConfigError("a call is issued once, by wait() or as a Work; this one was");
  std::shared_ptr<comm::Operation> operation = std::move(group->pending);
  const std::shared_ptr<comm::ProgressEngine>& engine = group->own->engine;
  engine->submit(operation, background);
  return {engine, std::move(operation)};
}

void PendingCall::wait() && { issue(false).wait(); }

PendingCall::operator Work() && { return issue(true); }

std::size_t wait_any(std::span<Work> works) {
  comm::ProgressEngine* engine = nullptr;
  std::vector<const comm::Operation*> operations;
  operations.reserve(works.size());
  for (const Work& work : works) {
    operations.push_back(work.operation_.get());
    if (!work.operation_) continue;
    if (engine == nullptr) engine = work.engine_.get();
    if (engine != work.engine_.get()) {
      throw ConfigError("wait_any: the works belong to several ranks; a rank waits for its own");
    }
  }
  if (engine == nullptr) {
    throw ConfigError(fmt::format(
        "wait_any: none of the {} works is under way: it would wait for ever", works.size()));
  }
  const comm::ProgressEngine::Ended ended = engine->wait_any(operations);
  const std::shared_ptr<comm::Operation> operation = std::move(works[ended.index].operation_);
  if (ended.error) std::rethrow_exception(ended.error);
  join(*operation);
  return ended.index;
}

}  // namespace ultra
