/* workspace.c - see workspace.h. */
#include "runtime/workspace.h"

enum { WORKSPACES_WANTED = 4 }; /* more only when as many calls are issued at once */

/* With the lock held. */
static struct workspace *workspace_find(const struct specialisation *spec, void *stream,
                                        bool capturing)
{
    struct workspace *other = NULL;
    int count = 0;
    for (struct workspace *w = spec->workspaces; w; w = w->next) {
        count += !w->captured;
        if (w->busy || (w->captured && !(capturing && w->stream == stream)))
            continue;
        if (w->stream == stream)
            return w;
        other = w;
    }
    return capturing || count >= WORKSPACES_WANTED ? other : NULL;
}

static phasor_status workspace_new(struct specialisation *spec, void *stream,
                                   struct workspace **out)
{
    struct device *device = spec->program->runtime->device;
    struct workspace *made = memory_new(sizeof *made);
    *out = NULL;
    if (!made)
        return fail_memory();
    phasor_status status = memory_lasting(device, (size_t)spec->recipe.work_bytes, &made->memory);
    if (status == PHASOR_OK)
        status = device_event_new(device, false, &made->event);
    if (status != PHASOR_OK) {
        memory_release(made->memory);
        memory_free(made);
        return status;
    }
    made->busy = true;
    made->stream = stream;
    pthread_mutex_lock(&spec->lock);
    made->next = spec->workspaces;
    spec->workspaces = made;
    pthread_mutex_unlock(&spec->lock);
    *out = made;
    return PHASOR_OK;
}

/* A capture cannot wait for what was issued before it began: that is done once it is captured, and
 * by then nobody else uses the workspace. */
static phasor_status workspace_capture(struct workspace *workspace)
{
    if (workspace->captured)
        return PHASOR_OK;
    TRY(device_event_synchronize(workspace->event));
    workspace->captured = true;
    return PHASOR_OK;
}

static void workspace_put_back(struct specialisation *spec, struct workspace *workspace)
{
    pthread_mutex_lock(&spec->lock);
    workspace->busy = false;
    pthread_mutex_unlock(&spec->lock);
}

phasor_status workspace_take(struct specialisation *spec, void *stream, bool capturing,
                             struct workspace **out)
{
    *out = NULL;
    if (spec->recipe.work_bytes == 0)
        return PHASOR_OK;
    pthread_mutex_lock(&spec->lock);
    struct workspace *found = workspace_find(spec, stream, capturing);
    if (found) {
        found->busy = true;
        found->stream = stream;
    }
    pthread_mutex_unlock(&spec->lock);
    if (!found && capturing)
        return fail(
            PHASOR_NOT_READY,
            "every workspace for these sizes belongs to a captured graph or to a call that is just "
            "being issued; run the program once more before the capture");
    if (!found)
        return workspace_new(spec, stream, out);
    const phasor_status status =
        capturing ? workspace_capture(found) : device_event_wait(found->event, stream);
    if (status != PHASOR_OK)
        workspace_put_back(spec, found);
    else
        *out = found;
    return status;
}

/* An event recorded in a capture is of that graph and no use to others. */
phasor_status workspace_give(struct specialisation *spec, struct workspace *workspace, void *stream)
{
    phasor_status status = PHASOR_OK;
    if (!workspace)
        return PHASOR_OK;
    if (!workspace->captured)
        status = device_event_record(workspace->event, stream);
    workspace_put_back(spec, workspace);
    return status;
}
