/* workspace.c - see workspace.h. */
#include "call/workspace.h"

#include "call/output.h"
/* More only when as many calls are issued at once. */
enum { WORKSPACES_WANTED = 4, BYTES_LEAST = 1 << 16 };

/* With the lock held. */
static struct workspace *workspace_find(const struct specialisation *spec, void *stream,
                                        bool capturing)
{
    struct workspace *other = NULL;
    int count = 0;
    for (struct workspace *w = spec->program->workspaces; w; w = w->next) {
        if (w->memory->nbytes < (size_t)spec->recipe.work_bytes)
            continue;
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
    struct phasor_program *program = spec->program;
    struct device *device = program->runtime->device;
    struct workspace *made = memory_new(sizeof *made);
    size_t nbytes = BYTES_LEAST;
    while (nbytes < (size_t)spec->recipe.work_bytes)
        nbytes *= 2;
    *out = NULL;
    if (!made)
        return fail_memory();
    phasor_status status = memory_lasting(device, nbytes, &made->memory);
    if (status == PHASOR_OK)
        status = device_event_new(device, false, &made->event);
    if (status != PHASOR_OK) {
        memory_release(made->memory);
        memory_free(made);
        return status;
    }
    made->busy = true;
    made->stream = stream;
    pthread_mutex_lock(&program->workspace_lock);
    made->next = program->workspaces;
    program->workspaces = made;
    pthread_mutex_unlock(&program->workspace_lock);
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

static void workspace_put_back(struct phasor_program *program, struct workspace *workspace)
{
    pthread_mutex_lock(&program->workspace_lock);
    workspace->busy = false;
    pthread_mutex_unlock(&program->workspace_lock);
}

phasor_status workspace_take(struct specialisation *spec, void *stream, bool capturing,
                             struct workspace **out)
{
    *out = NULL;
    if (spec->recipe.work_bytes == 0)
        return PHASOR_OK;
    pthread_mutex_lock(&spec->program->workspace_lock);
    struct workspace *found = workspace_find(spec, stream, capturing);
    if (found) {
        found->busy = true;
        found->stream = stream;
    }
    pthread_mutex_unlock(&spec->program->workspace_lock);
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
        workspace_put_back(spec->program, found);
    else
        *out = found;
    return status;
}

/* An event recorded in a capture is of that graph and no use to others. */
phasor_status workspace_give(struct phasor_program *program, struct workspace *workspace,
                             void *stream)
{
    phasor_status status = PHASOR_OK;
    if (!workspace)
        return PHASOR_OK;
    if (!workspace->captured)
        status = device_event_record(workspace->event, stream);
    workspace_put_back(program, workspace);
    return status;
}

void workspaces_free(struct phasor_program *program)
{
    while (program->workspaces) {
        struct workspace *next = program->workspaces->next;
        memory_release(program->workspaces->memory);
        device_event_free(program->workspaces->event);
        memory_free(program->workspaces);
        program->workspaces = next;
    }
    pthread_mutex_destroy(&program->workspace_lock);
}
