"""What a web process runs for the gateway: bus messages delivered to clients, polling in case one was lost, ticks and health."""

from django.conf import settings

from clawsite.accounts.change_notices import AccountChanged
from clawsite.gateway.delivery import approval_feed, pairing_feed
from clawsite.gateway.delivery.presence import PresenceChanged
from clawsite.gateway.devices.connecting import PairingChanged
from clawsite.gateway.nodes.messages import InvocationCreated, InvocationEnded, NodeBroadcastSent, NodeEventReported
from clawsite.gateway.protocol import limits
from clawsite.gateway.protocol.events.frames import OutgoingEvent
from clawsite.gateway.server.runtime import Runtime
from clawsite.infra.process.host import Host, on_start
from sessions_app.events.announce import EventsCommitted, FreezesChanged, SessionChanged
from tools_app.approvals.announce import ApprovalChanged


@on_start("web")
async def deliver_session_changes(host: Host) -> None:
    runtime = host.get(Runtime)
    hub = runtime.hub

    async def handle_members(message: SessionChanged) -> None:
        runtime.changes.notify(message.session)
        await hub.receive_member_change(message)

    def handle_change(message: SessionChanged) -> None:
        if message.change == "members":
            host.spawn(handle_members(message))
        else:
            hub.receive_session_change(message)

    host.subscribe(EventsCommitted, runtime.run_feeds.handle_message)
    host.subscribe(EventsCommitted, hub.receive_events)
    host.subscribe(SessionChanged, handle_change)
    host.every("find lost events", settings.POLL_SECONDS, hub.poll, at_start=False)
    host.every("find lost events of followed runs", settings.POLL_SECONDS, runtime.run_feeds.poll, at_start=False)


@on_start("web")
async def deliver_other_changes(host: Host) -> None:
    runtime = host.get(Runtime)
    audience = runtime.hub.audience

    def handle_account(message: AccountChanged) -> None:
        runtime.access.handle_account_change(message)
        runtime.changes.notify(message.user)

    async def handle_approval(message: ApprovalChanged) -> None:
        runtime.approval_waits.notify(message.id)
        await approval_feed.notify_approval(audience, message)

    async def handle_pairing(message: PairingChanged) -> None:
        await pairing_feed.notify_pairing(audience, message)

    host.subscribe(AccountChanged, handle_account)
    host.subscribe(ApprovalChanged, handle_approval)
    host.subscribe(PairingChanged, handle_pairing)
    host.subscribe(PresenceChanged, runtime.presence.handle_message)


@on_start("web")
async def connect_nodes(host: Host) -> None:
    runtime = host.get(Runtime)

    def handle_event(message: NodeEventReported) -> None:
        runtime.hub.send_to_owner(message.owner, OutgoingEvent("node.event", message.event, message.event))

    host.subscribe(InvocationCreated, runtime.nodes.handle_created)
    host.subscribe(InvocationEnded, runtime.nodes.handle_ended)
    host.subscribe(NodeBroadcastSent, runtime.nodes.handle_broadcast)
    host.subscribe(NodeEventReported, handle_event)
    host.every("send node invocations", settings.POLL_SECONDS, runtime.nodes.poll, at_start=False)


@on_start("web")
async def report_state(host: Host) -> None:
    runtime = host.get(Runtime)
    host.every(
        "notify of freezes", settings.POLL_SECONDS, runtime.health.check_freezes, hint=host.hint(FreezesChanged), at_start=False
    )
    host.every("broadcast health", limits.HEALTH_SECONDS, runtime.health.broadcast, at_start=False)
    host.every("send ticks", limits.TICK_SECONDS, runtime.ticker.tick, at_start=False)
