#include "common/comm/engine/group_state.hpp"

#include <fmt/format.h>

#include "common/base/errors.hpp"
#include "common/comm/backend/nccl/nccl_transport.hpp"
#include "common/comm/device/staged_transport.hpp"

namespace ultra::comm {

std::shared_ptr<GroupState> GroupState::join(std::shared_ptr<RankState> own,
                                             std::shared_ptr<Transport> control, std::string name) {
  auto group = std::make_shared<GroupState>();
  group->transport = control;
  if (own->staging) group->transport = staged(control, own->staging);
  group->transport = nccl::with_nccl(group->transport, control, own->nccl, own->polling);
  if (own->link) group->transport = slowed(group->transport, own->link);
  group->control = std::move(control);
  group->name = std::move(name);
  group->id = own->groups++;
  group->own = std::move(own);
  return group;
}

void GroupState::expect_all_issued() const {
  if (!pending) return;
  throw ConfigError(fmt::format(
      "'{}' takes no further operation: {} was called, but never issued, so the members' "
      "numbers would differ. Say .wait() behind the call, or keep it: Work work = ...",
      name, to_string(pending->info())));
}

void GroupState::number(OperationInfo& info) {
  expect_all_issued();
  info.communicator = name;
  info.communicator_id = id;
  info.sequence = sequence++;
}

}  // namespace ultra::comm
